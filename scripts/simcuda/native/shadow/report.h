// How often each operator got its value from the CPU, and which could not.
#pragma once
#include <string>

namespace shadow::report {
void shadowed(const std::string& name);
void refused(const std::string& name, const char* why);
// A line per operator: name, shadowed, refused, the last reason; separated by tabs.
std::string text();
}  // namespace shadow::report
