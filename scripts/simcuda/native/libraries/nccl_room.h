// Where the ranks of a communicator meet, in one process or in several: a folder in shared memory. A message is a file.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace simnccl {

struct Counters {  // shared by all ranks
  std::atomic<uint32_t> failed;  // here, since a rank without room, or without descriptors, can make no file
  std::atomic<uint32_t> left;
  std::atomic<uint32_t> done[1024];  // by number of the collective: how many ranks have read it
};

class Room {
 public:
  Room(std::string id, int ranks, int rank);
  ~Room();
  Room(const Room&) = delete;

  bool wait_for_all();  // until every rank has joined
  // Every rank gives `size` bytes and gets everybody's, by rank. False when aborted, or when one rank failed: then for all.
  // So it is where another rank came for something else than `what`, for which NCCL waits for ever.
  bool exchange(const std::string& what, const void* data, size_t size, std::vector<std::vector<char>>* all);
  bool send(int to, const void* data, size_t size);
  bool receive(int from, void* data, size_t size);  // false, for all ranks, where the other one sent more or fewer bytes

  void abort() {
    aborted_ = true;
    leave();
  }
  bool failed() const;  // has a rank had no room in the shared memory, or could not read what was there?
  const std::string& id() const { return id_; }

 private:
  void leave();  // the last one removes the folder
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  bool fail(const std::string& what);    // says so with the reason in errno, and tells the other ranks; false
  bool refuse(const std::string& told);  // the same without a reason
  bool write(const std::string& name, const void* data, size_t size);
  bool read(const std::string& name, std::vector<char>* out);  // waits for the file
  std::string id_, folder_;
  int ranks_, rank_;
  uint64_t next_ = 0;
  std::vector<uint64_t> sent_, received_;
  Counters* counters_ = nullptr;
  int lock_ = -1;  // of the counters' file, shared, as long as this process lives: whose ranks are all gone is swept
  std::atomic<bool> left_{false};
  std::atomic<bool> aborted_{false};
};

}  // namespace simnccl
