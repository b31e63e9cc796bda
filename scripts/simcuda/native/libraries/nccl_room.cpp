#include "nccl_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace simnccl {
namespace {

constexpr const char* kShared = "/dev/shm";
constexpr const char* kPrefix = "simcuda-nccl-";
constexpr time_t kYoung = 60;  // seconds in which a folder may be there and its lock not yet

template <class Visit>
void for_each_name(const std::string& folder, Visit visit) {
  DIR* list = opendir(folder.c_str());
  if (!list) return;
  while (dirent* entry = readdir(list))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) visit(entry->d_name);
  closedir(list);
}

void remove_folder(const std::string& folder) {
  for_each_name(folder, [&](const char* name) { unlink((folder + "/" + name).c_str()); });
  rmdir(folder.c_str());
}

// What ranks left that were killed. Once in a process.
bool sweep() {
  for_each_name(kShared, [](const char* name) {
    struct stat info;
    std::string folder = std::string(kShared) + "/" + name;
    if (strncmp(name, kPrefix, strlen(kPrefix)) || stat(folder.c_str(), &info) || time(nullptr) - info.st_mtime < kYoung) return;
    int file = open((folder + "/counters").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0) remove_folder(folder);
    if (file >= 0) close(file);
  });
  return true;
}

}  // namespace

Room::Room(std::string id, int ranks, int rank)
    : id_(std::move(id)), folder_(std::string(kShared) + "/" + kPrefix + id_), ranks_(ranks), rank_(rank), sent_(ranks), received_(ranks) {
  static bool swept = sweep();
  (void)swept;
  mkdir(folder_.c_str(), 0700);
  lock_ = open(path("counters").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ >= 0 && flock(lock_, LOCK_SH) == 0 && !(errno = posix_fallocate(lock_, 0, sizeof(Counters)))) {
    void* page = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, lock_, 0);
    if (page != MAP_FAILED) counters_ = (Counters*)page;
  }
  if (counters_)
    write("joined-" + std::to_string(rank), "1", 1);
  else
    fail("make a communicator");
}

Room::~Room() {
  leave();
  if (counters_) munmap(counters_, sizeof(Counters));
  if (lock_ >= 0) close(lock_);
}

void Room::leave() {
  if (!counters_ || left_.exchange(true)) return;
  if (++counters_->left == uint32_t(ranks_)) remove_folder(folder_);
}

bool Room::failed() const { return !counters_ || counters_->failed; }

bool Room::fail(const std::string& what) {
  const char* hint = errno == ENOSPC ? "; a container gets more by docker run --shm-size" : "";
  return refuse("cannot " + what + " in " + kShared + ": " + strerror(errno) + hint);
}

bool Room::refuse(const std::string& told) {
  fprintf(stderr, "simcuda: NCCL %s\n", told.c_str());
  if (counters_)
    counters_->failed = 1;
  else  // an empty file, for which there is room and no descriptor is needed, tells wait_for_all
    mknod(path("joined-" + std::to_string(rank_)).c_str(), S_IFREG | 0600, 0);
  return false;
}

bool Room::write(const std::string& name, const void* data, size_t size) {
  if (aborted_ || failed()) return false;
  std::string part = path("." + name + "." + std::to_string(getpid()));
  int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return fail("write " + std::to_string(size) + " bytes");
  const char* at = (const char*)data;
  size_t left = size;
  while (left) {
    ssize_t n = ::write(file, at, left);
    if (n <= 0) break;
    at += n, left -= size_t(n);
  }
  const bool written = !left && rename(part.c_str(), path(name).c_str()) == 0;  // whole, or not there
  const int error = errno;
  close(file);
  if (written) return true;
  unlink(part.c_str());
  errno = error;
  return fail("write " + std::to_string(size) + " bytes");
}

bool Room::read(const std::string& name, std::vector<char>* out) {
  int file;
  for (useconds_t pause = 20; (file = open(path(name).c_str(), O_RDONLY | O_CLOEXEC)) < 0; pause = pause < 1000 ? pause * 2 : pause) {
    if (errno != ENOENT) return fail("read a message");
    if (aborted_ || failed()) return false;
    usleep(pause);
  }
  struct stat info;
  fstat(file, &info);
  out->resize(size_t(info.st_size));
  size_t got = 0;
  while (got < out->size()) {
    ssize_t n = ::read(file, out->data() + got, out->size() - got);
    if (n <= 0) break;
    got += size_t(n);
  }
  close(file);
  return got == out->size() || fail("read a message");
}

bool Room::wait_for_all() {
  if (!counters_) return false;
  std::vector<char> joined;
  for (int r = 0; r < ranks_; r++) {
    if (!read("joined-" + std::to_string(r), &joined)) return false;
    if (joined.empty()) counters_->failed = 1;
  }
  return !failed();
}

bool Room::exchange(const std::string& what, const void* data, size_t size, std::vector<std::vector<char>>* all) {
  if (!counters_) return false;
  std::string stem = "all-" + std::to_string(next_) + "-";
  auto& done = counters_->done[next_++ % 1024];
  std::vector<char> mine(what.begin(), what.end());
  mine.push_back(0);
  mine.insert(mine.end(), (const char*)data, (const char*)data + size);
  if (!write(stem + std::to_string(rank_), mine.data(), mine.size())) return false;
  all->resize(size_t(ranks_));
  for (int r = 0; r < ranks_; r++) {
    std::vector<char>& part = (*all)[size_t(r)];
    if (!read(stem + std::to_string(r), &part)) return false;
    const auto end = std::find(part.begin(), part.end(), 0);
    const std::string theirs(part.begin(), end);
    if (theirs != what) return refuse("rank " + std::to_string(rank_) + " came for " + what + ", rank " + std::to_string(r) + " for " + theirs);
    part.erase(part.begin(), end + 1);
  }
  if (++done == uint32_t(ranks_)) {
    done = 0;
    for (int r = 0; r < ranks_; r++) unlink(path(stem + std::to_string(r)).c_str());
  }
  return true;
}

bool Room::send(int to, const void* data, size_t size) {
  std::string name = "to-" + std::to_string(to) + "-from-" + std::to_string(rank_) + "-" + std::to_string(sent_[size_t(to)]++);
  return write(name, data, size);
}

bool Room::receive(int from, void* data, size_t size) {
  std::string name = "to-" + std::to_string(rank_) + "-from-" + std::to_string(from) + "-" + std::to_string(received_[size_t(from)]++);
  std::vector<char> message;
  if (!read(name, &message)) return false;
  if (message.size() != size)
    return refuse("rank " + std::to_string(rank_) + " waits for " + std::to_string(size) + " bytes of rank " + std::to_string(from) +
                  ", which sent " + std::to_string(message.size()));
  unlink(path(name).c_str());
  memcpy(data, message.data(), size);
  return true;
}

}  // namespace simnccl
