// Kernel names hold things that differ between two builds of one source by nature: the hash of the file that an unnamed
// namespace belongs to, and the list of architectures in CUB's and Thrust's namespaces.
#include <cctype>

#include "kernels.h"

namespace sim {
namespace {

bool hexadecimal(const std::string& s, size_t at, size_t count) {
  if (at + count > s.size()) return false;
  for (size_t i = at; i < at + count; i++)
    if (!isxdigit((unsigned char)s[i])) return false;
  return true;
}

// A mangled source name: its length in decimal digits, then so many characters.
bool source_name(const std::string& s, size_t at, size_t* text, size_t* length) {
  size_t i = at, n = 0;
  while (i < s.size() && isdigit((unsigned char)s[i]) && n < 100000) n = n * 10 + size_t(s[i++] - '0');
  if (i == at || !n || i + n > s.size()) return false;
  *text = i, *length = n;
  return true;
}

// 8 hexadecimal digits between underscores become "#".
std::string without_hashes(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size(); i++) {
    if (name[i] == '_' && hexadecimal(name, i + 1, 8) && (i + 9 == name.size() || name[i + 9] == '_')) {
      out += "_#";
      i += 8;
      // the number of the unnamed namespace's process, where there is one, goes with the last hash
      continue;
    }
    out += name[i];
  }
  return out;
}

std::string plain(const std::string& name) {
  if (name.rfind("_GLOBAL__N_", 0) == 0 || name.rfind("_INTERNAL_", 0) == 0) {
    std::string s = without_hashes(name);
    size_t last = s.rfind("_#");
    if (last != std::string::npos) s.resize(last + 2);  // what follows is a process number
    return s;
  }
  for (const char* library : {"CUB_", "THRUST_"})
    if (name.rfind(library, 0) == 0) {
      size_t second = name.find('_', 4);
      if (second != std::string::npos && name.size() > 3 && name.compare(name.size() - 3, 3, "_NS") == 0)
        return std::string(library) + "NS";
    }
  return name;
}

}  // namespace

std::string normalised(const std::string& mangled) {
  std::string out;
  size_t behind = 0;  // the name that ended there may have ended in a digit
  for (size_t i = 0; i < mangled.size();) {
    size_t text, length;
    bool starts = isdigit((unsigned char)mangled[i]) && (i == behind || !isdigit((unsigned char)mangled[i - 1]));
    if (starts && source_name(mangled, i, &text, &length)) {
      std::string name = mangled.substr(text, length), short_name = plain(name);
      if (short_name != name) {
        out += std::to_string(short_name.size()) + short_name;
        i = behind = text + length;
        continue;
      }
    }
    out += mangled[i++];
  }
  return out;
}

}  // namespace sim
