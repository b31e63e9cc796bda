// Kernel names hold things that differ between two builds of one source by nature: the hash of the file that an unnamed
// namespace belongs to, and the list of architectures in CUB's and Thrust's namespaces; CUB's may be left out altogether.
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

// Where the token ends that begins there and holds digits or an "S" of its own: a name, a template's parameter, or a literal;
// else `at`.
size_t behind_token(const std::string& s, size_t at) {
  size_t text, length;
  if (source_name(s, at, &text, &length)) return text + length;
  if (s[at] == 'T') {
    size_t i = at + 1;
    while (i < s.size() && (isdigit((unsigned char)s[i]) || isupper((unsigned char)s[i]))) i++;
    return i < s.size() && s[i] == '_' ? i + 1 : at;
  }
  if (s[at] != 'L' || at + 3 >= s.size() || !islower((unsigned char)s[at + 1])) return at;
  size_t i = at + 2 + (s[at + 2] == 'n');  // of a negative number
  if (!isdigit((unsigned char)s[i])) return at;
  while (i < s.size() && isdigit((unsigned char)s[i])) i++;
  return i;
}

// A kernel of CUB without the namespace for architectures. Substitutions count what was named before, so each that is behind
// that one becomes the one before it.
std::string without_namespace(const std::string& s) {
  static const std::string kBefore[] = {"_ZN3cub", "_ZN14at_cuda_detail3cub"}, kNamespace = "6CUB_NS";
  for (size_t named = 1; named <= 2; named++) {
    const std::string& before = kBefore[named - 1];
    if (s.compare(0, before.size(), before) || s.compare(before.size(), kNamespace.size(), kNamespace)) continue;
    std::string out = before;
    for (size_t i = before.size() + kNamespace.size(); i < s.size();) {
      size_t end = behind_token(s, i), number = 0, digits = i + 1;
      if (end == i && s[i] == 'S') {
        for (; digits < s.size() && (isdigit((unsigned char)s[digits]) || isupper((unsigned char)s[digits])); digits++)
          number = number * 36 + size_t(isdigit((unsigned char)s[digits]) ? s[digits] - '0' : s[digits] - 'A' + 10);
        number = digits == i + 1 ? 0 : number + 1;  // S_, S0_, S1_, ...
        if (digits < s.size() && s[digits] == '_') {
          std::string text;
          for (size_t left = number >= named ? number - 1 : number; left; left = (left - 1) / 36)
            text.insert(text.begin(), "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(left - 1) % 36]);
          out += "S" + text + "_";
          i = digits + 1;
          continue;
        }
      }
      if (end == i) end++;
      out.append(s, i, end - i);
      i = end;
    }
    return out;
  }
  return s;
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
  return without_namespace(out);
}

}  // namespace sim
