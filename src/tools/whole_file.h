// A file that is there whole or not at all: written under another name beside it and renamed when
// it is complete, so that a full disk or an interrupted program leaves nothing that looks right.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::tools {

class WholeFile {
 public:
  // An Error names the file and says why it cannot be made. What exists and is no regular file
  // (a FIFO, /dev/stdout) is written to directly.
  static Result<WholeFile> create(const std::string& path);
  WholeFile(WholeFile&& other) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile();  // without commit(): removes what was written

  // After a failure nothing more is written and commit() says what it was.
  void write(std::string_view bytes);
  Result<void> commit();

 private:
  WholeFile() = default;
  void fail_with(int error);

  std::string path_;                // as given
  std::string target_, temporary_;  // empty for what is no regular file
  FILE* file_ = nullptr;
  int error_ = 0;
};

// All of `bytes`, or an Error and no file.
Result<void> write_whole_file(const std::string& path, std::string_view bytes);

}  // namespace verbena::tools
