#include "report.h"

#include <map>
#include <mutex>

namespace shadow::report {
namespace {
struct Count {
  uint64_t shadowed = 0, refused = 0;
  std::string why;
};
std::mutex mutex;
std::map<std::string, Count>& counts() {
  static auto* all = new std::map<std::string, Count>;
  return *all;
}
}  // namespace

void shadowed(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex);
  counts()[name].shadowed++;
}
void refused(const std::string& name, const char* why) {
  std::lock_guard<std::mutex> lock(mutex);
  Count& c = counts()[name];
  c.refused++;
  std::string text = why;
  c.why = text.substr(0, text.find('\n')).substr(0, 200);
}
std::string text() {
  std::lock_guard<std::mutex> lock(mutex);
  std::string out;
  for (auto& [name, c] : counts())
    out += name + "\t" + std::to_string(c.shadowed) + "\t" + std::to_string(c.refused) + "\t" + c.why + "\n";
  return out;
}

}  // namespace shadow::report
