// Stub of the message, to compile ros2_node.cpp where ROS 2 is not installed.
#pragma once
#include <vector>

namespace std_msgs {
namespace msg {
struct Float64MultiArray {
    std::vector<double> data;
};
} // namespace msg
} // namespace std_msgs
