// verbena explain: a status, errno, event or rejection in words, or the causes in an explain log.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>

#include <ext/stdio_filebuf.h>
#include <iostream>

#include "tools/command.h"
#include "tools/explain_log.h"
#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

// Files, and the pipes of a shell's <(COMMAND); nothing that never ends.
bool is_log(const std::string& query) {
  struct stat info;
  return query == "-" ||
         (stat(query.c_str(), &info) == 0 && (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode)));
}

// A FIFO nobody writes to is empty: opening it must not wait for a writer.
int summarise_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return complain("explain", fmt::format("{}: {}", path, strerror(errno)), 1);
  fcntl(fd, F_SETFL, 0);
  __gnu_cxx::stdio_filebuf<char> buffer(fd, std::ios::in);  // closes it
  std::istream in(&buffer);
  fmt::print("{}", summarise_log(in));
  return 0;
}

int explain(const std::vector<std::string>& words) {
  if (words.empty()) {
    for (const auto& list : all_explanations()) fmt::print("{}", explanation_list(list));
    return 0;
  }
  const std::string query = fmt::format("{}", fmt::join(words, " "));
  const std::string found = explain_query(query);
  if (!found.empty()) {
    fmt::print("{}", found);
    return 0;
  }
  if (is_log(query)) {
    if (query == "-") {
      fmt::print("{}", summarise_log(std::cin));
      return 0;
    }
    return summarise_file(query);
  }
  return complain("explain",
                  fmt::format("'{}' is no completion status, errno, rdma_cm event, REJ reason or "
                              "log file; verbena explain without arguments lists what is known",
                              query),
                  2);
}

}  // namespace

void add_explain(CLI::App& app, Invocation& invocation) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "explain",
      "Say what a completion status, an errno, an rdma_cm event or an explain log means");
  command->add_option("WHAT", *words,
                      "A number or name (12, RETRY_EXC_ERR, ENOMEM, RDMA_CM_EVENT_REJECTED, "
                      "REJ 8), the sentence a program printed, or a log file written with "
                      "VERBENA_LOG=explain:FILE (- is stdin); "
                      "without it, the list of all");
  command->callback([words, &invocation] {
    words->insert(words->end(), invocation.after_dashes.begin(), invocation.after_dashes.end());
    invocation.status = explain(*words);
  });
}

}  // namespace verbena::tools
