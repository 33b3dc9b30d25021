// See whole_file.h.
#include "tools/whole_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace verbena::tools {

namespace {

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  return fail(error, fmt::format("cannot write {}: {}", path, strerror(error)));
}

}  // namespace

Result<WholeFile> WholeFile::create(const std::string& path) {
  WholeFile out;
  out.path_ = path;
  struct stat about;
  const bool exists = stat(path.c_str(), &about) == 0;
  if (exists && S_ISDIR(about.st_mode)) return cannot_write(path, EISDIR);
  const bool direct = exists && !S_ISREG(about.st_mode);
  if (!direct) {
    out.target_ = path;
    if (exists) {  // a rename would replace a symbolic link, not what it leads to
      char* real = realpath(path.c_str(), nullptr);
      if (real != nullptr) out.target_ = real;
      free(real);
    }
    out.temporary_ = fmt::format("{}.{}.part", out.target_, getpid());
  }
  // Exclusively: the same name given for two files is a mistake that is told.
  out.file_ = direct ? fopen(path.c_str(), "we") : fopen(out.temporary_.c_str(), "wxe");
  if (out.file_ == nullptr) {
    const int error = errno;
    out.temporary_.clear();  // nothing to remove
    return cannot_write(path, error);
  }
  return out;
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::exchange(other.file_, nullptr)),
      error_(other.error_) {}

WholeFile::~WholeFile() {
  if (file_ != nullptr) fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void WholeFile::fail_with(int error) {
  error_ = error;
  if (file_ != nullptr) fclose(std::exchange(file_, nullptr));
  if (!temporary_.empty()) unlink(std::exchange(temporary_, {}).c_str());
}

void WholeFile::write(std::string_view bytes) {
  if (error_ != 0) return;
  if (fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_with(errno);
}

Result<void> WholeFile::commit() {
  if (error_ == 0 && fclose(std::exchange(file_, nullptr)) != 0) fail_with(errno);
  if (error_ == 0 && !temporary_.empty()) {
    if (rename(temporary_.c_str(), target_.c_str()) != 0)
      fail_with(errno);
    else
      temporary_.clear();
  }
  if (error_ != 0) return cannot_write(path_, error_);
  return {};
}

Result<void> write_whole_file(const std::string& path, std::string_view bytes) {
  auto file = WholeFile::create(path);
  if (!file) return tl::unexpected(file.error());
  file->write(bytes);
  return file->commit();
}

}  // namespace verbena::tools
