// Skeleton of a ROS 2 node around an exported shield: it subscribes to measurements and to a controller's proposals, and
// publishes the action to run, once in a millisecond. Compiled here against the stubs in stubs/, never run under ROS 2.
//
//   colcon build      (with a CMakeLists.txt that finds rclcpp and std_msgs and compiles shield.c as C)

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "std_msgs/msg/float64_multi_array.hpp"

#include "shield.h"

using Numbers = std_msgs::msg::Float64MultiArray;

class ShieldNode : public rclcpp::Node {
public:
    ShieldNode() : rclcpp::Node("shield"), shield_(std::make_unique<shield_t>())
    {
        shield_init(shield_.get(), fallback_.data());
        measured_ = create_subscription<Numbers>("measured", 1, [this](const Numbers &message) {
            fresh_ = message.data.size() == SHIELD_OBSERVATION; // what has another size is not an observation
            if (fresh_)
                std::copy(message.data.begin(), message.data.end(), observation_.begin());
        });
        proposed_ = create_subscription<Numbers>("proposed", 1, [this](const Numbers &message) {
            if (message.data.size() == SHIELD_ACTION)
                std::copy(message.data.begin(), message.data.end(), proposal_.begin());
        });
        action_ = create_publisher<Numbers>("action", 1);
        timer_ = create_wall_timer(std::chrono::milliseconds(1), [this] { tick(); });
    }

    void tick()
    {
        Numbers message;
        message.data.assign(fallback_.begin(), fallback_.end());
        if (fresh_ && !begun_)
            begun_ = shield_reset(shield_.get(), observation_.data(), nullptr) != 0;
        if (fresh_ && begun_) {
            std::array<shield_real, SHIELD_ACTION> action{};
            shield_act(shield_.get(), observation_.data(), proposal_.data(), action.data());
            message.data.assign(action.begin(), action.end());
        }
        fresh_ = false; // a measurement is used once: without a new one the fallback is published
        action_->publish(message);
    }

private:
    std::unique_ptr<shield_t> shield_;
    std::array<shield_real, SHIELD_OBSERVATION> observation_{};
    std::array<shield_real, SHIELD_ACTION> proposal_{}, fallback_{};
    bool fresh_ = false, begun_ = false;
    rclcpp::Subscription<Numbers>::SharedPtr measured_, proposed_;
    rclcpp::Publisher<Numbers>::SharedPtr action_;
    rclcpp::TimerBase::SharedPtr timer_;
};

int main(int argc, char **argv)
{
    rclcpp::init(argc, argv);
    rclcpp::spin(std::make_shared<ShieldNode>());
    rclcpp::shutdown();
    return 0;
}
