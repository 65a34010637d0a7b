// The few declarations of rclcpp that ros2_node.cpp uses, to compile it where ROS 2 is not installed. Nothing is sent.
#pragma once
#include <functional>
#include <memory>
#include <string>

namespace rclcpp {
template <typename Message> struct Subscription {
    using SharedPtr = std::shared_ptr<Subscription>;
    std::function<void(const Message &)> callback;
};
template <typename Message> struct Publisher {
    using SharedPtr = std::shared_ptr<Publisher>;
    Message last;
    void publish(const Message &message) { last = message; }
};
struct TimerBase {
    using SharedPtr = std::shared_ptr<TimerBase>;
    std::function<void()> callback;
};
class Node {
public:
    explicit Node(const std::string &) {}
    template <typename Message, typename Callback>
    typename Subscription<Message>::SharedPtr create_subscription(const std::string &, int, Callback callback)
    {
        auto made = std::make_shared<Subscription<Message>>();
        made->callback = callback;
        return made;
    }
    template <typename Message> typename Publisher<Message>::SharedPtr create_publisher(const std::string &, int)
    {
        return std::make_shared<Publisher<Message>>();
    }
    template <typename Period, typename Callback> TimerBase::SharedPtr create_wall_timer(Period, Callback callback)
    {
        auto made = std::make_shared<TimerBase>();
        made->callback = callback;
        return made;
    }
};
inline void init(int, char **) {}
inline void spin(const std::shared_ptr<Node> &) {}
inline void shutdown() {}
} // namespace rclcpp
