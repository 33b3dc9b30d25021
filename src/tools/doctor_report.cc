// The dynamic linker's own questions, asked beforehand: is every library found, does every
// symbol@version it binds at load exist. Most RDMA programs are linked BIND_NOW, so one missing
// symbol means they do not start.
#include "tools/doctor_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/program.h"

namespace verbena::tools {
namespace {

constexpr const char* kRdmaLibraries[] = {"libibverbs.so.1", "librdmacm.so.1"};

// Paths outside the verbs API that RDMA programs open, and whether `verbena run` shows them.
constexpr struct {
  const char* path;
  bool provided;
} kPaths[] = {
    {"/sys/class/infiniband", true},
    {"/dev/infiniband", true},
    {"/dev/infiniband/umad", false},
    {"/dev/infiniband/issm", false},
};

struct Inspection {
  Program program;
  std::vector<Library> libraries;
  std::string folder;

  const Library* find(std::string_view name) const {
    for (const Library& library : libraries)
      if (library.name == name) return &library;
    return nullptr;
  }
  bool ours(const Library& library) const { return library.path.rfind(folder + "/", 0) == 0; }
};

class Report {
 public:
  void line(std::string_view title, const std::string& value) {
    text += fmt::format("{:<12} {}\n", title == last_ ? "" : title, value);
    last_ = title;
  }
  void problem(const std::string& value) { problems.push_back(value); }
  std::string text;
  std::vector<std::string> problems;

 private:
  std::string last_;
};

bool is_rdma(std::string_view name) {
  return std::any_of(std::begin(kRdmaLibraries), std::end(kRdmaLibraries),
                     [&](const char* known) { return name == known; });
}

std::set<std::string> provided_symbols(const ElfFile& file) {
  std::set<std::string> names;
  for (const ElfSymbol& symbol : file.provided) names.insert(symbol.name + "@" + symbol.version);
  return names;
}

std::string search_path_text(const ElfFile& file) {
  if (!file.runpath.empty()) return "RUNPATH " + file.runpath;
  if (!file.rpath.empty()) return "RPATH " + file.rpath;
  return "";
}

void describe_program(const Inspection& in, Report& out) {
  const Program& program = in.program;
  const ElfFile& file = program.file;
  out.line("program", fmt::format("{} ({}-bit {}, {})", program.path, file.is_64 ? 64 : 32,
                                  machine_name(file.machine),
                                  file.is_static() ? "static" : "dynamic, " + file.interpreter));
  if (!program.interpreter.empty())
    out.line("script", fmt::format("run by {}", program.interpreter));
  out.line("privileges", program.secure.empty() ? "none of its own" : program.secure);
  bool any = false;
  const auto search_path = [&](const ElfFile& of) {
    const std::string text = search_path_text(of);
    if (text.empty()) return;
    any = true;
    out.line("search path", fmt::format("{} in {}", text, of.path));
  };
  search_path(file);
  for (const Library& library : in.libraries)
    if (!library.path.empty() && !in.ours(library)) search_path(library.file);
  if (!any) out.line("search path", "no RPATH or RUNPATH");
}

void describe_libraries(const Inspection& in, Report& out) {
  for (const Library& library : in.libraries) {
    if (library.path.empty()) {
      out.line("libraries",
               fmt::format("{} is missing (wanted by {})", library.name, library.wanted_by));
      out.problem(fmt::format("the library {} is not installed", library.name));
    } else if (is_rdma(library.name)) {
      out.line("libraries", fmt::format("{} -> {}{}", library.name, library.path,
                                        in.ours(library) ? " (Verbena's)" : ""));
    }
  }
  for (const char* name : kRdmaLibraries) {
    const Library* library = in.find(name);
    if (library == nullptr || library->path.empty() || in.ours(*library)) continue;
    if (access((in.folder + "/" + name).c_str(), R_OK) != 0 && name != kRdmaLibraries[0])
      out.line("libraries",
               fmt::format("{} is the system's: its rdma_cm calls find no device", name));
    else if (in.program.rpath_of.empty())  // else a DT_RPATH hid ours, and the audit module helps
      out.problem(fmt::format("{} comes from {}, not from {}", name, library->path, in.folder));
  }
}

// Every symbol@version that `user` wants from a library, checked against the one that was found.
void check_symbols(const Inspection& in, const ElfFile& user,
                   std::map<std::string, std::set<std::string>>& provided,
                   std::map<std::string, std::set<std::string>>& wanted, Report& out) {
  for (const ElfSymbol& symbol : user.wanted) {
    const Library* library = in.find(symbol.library);
    if (library == nullptr || library->path.empty()) continue;
    auto known = provided.find(symbol.library);
    if (known == provided.end())
      known = provided.emplace(symbol.library, provided_symbols(library->file)).first;
    const std::string full = symbol.name + "@" + symbol.version;
    if (is_rdma(symbol.library)) wanted[symbol.library].insert(full);
    if (symbol.weak || known->second.count(full) > 0) continue;
    out.line("missing", fmt::format("{} of {} (wanted by {})", full, symbol.library, user.path));
    out.problem(fmt::format("{} has no {}", library->path, full));
  }
}

void describe_symbols(const Inspection& in, Report& out) {
  std::map<std::string, std::set<std::string>> provided;
  std::map<std::string, std::set<std::string>> wanted;
  check_symbols(in, in.program.file, provided, wanted, out);
  for (const Library& library : in.libraries)
    if (!library.path.empty()) check_symbols(in, library.file, provided, wanted, out);
  for (const auto& [library, symbols] : wanted) {
    std::set<std::string> versions;
    for (const std::string& symbol : symbols) versions.insert(symbol.substr(symbol.find('@') + 1));
    const std::set<std::string>& have = provided[library];
    const auto found = std::count_if(symbols.begin(), symbols.end(),
                                     [&](const std::string& name) { return have.count(name) > 0; });
    out.line("symbols", fmt::format("{} of {} wanted from {} are there ({})", found, symbols.size(),
                                    library, fmt::join(versions, ", ")));
  }
}

// Whether `file` binds one of these symbols, of whichever version.
bool wants_any(const ElfFile& file, std::initializer_list<std::string_view> names) {
  return std::any_of(file.wanted.begin(), file.wanted.end(), [&](const ElfSymbol& symbol) {
    return std::find(names.begin(), names.end(), symbol.name) != names.end();
  });
}

// Devices come by ibv_open_device or by rdma_cm. A program that knows only the second starts, and
// then finds none while librdmacm is the system's.
void check_ways_to_a_device(const Inspection& in, Report& out) {
  const Library* manager = in.find(kRdmaLibraries[1]);
  if (manager == nullptr || manager->path.empty() || in.ours(*manager)) return;
  std::vector<const ElfFile*> files = {&in.program.file};
  for (const Library& library : in.libraries)
    if (!library.path.empty() && !is_rdma(library.name)) files.push_back(&library.file);
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(files.begin(), files.end(),
                       [&](const ElfFile* file) { return wants_any(*file, names); });
  };
  if (any({"rdma_create_id", "rdma_create_ep", "rdma_get_devices", "rdma_create_event_channel"}) &&
      !any({"ibv_open_device", "ibv_get_device_list"}))
    out.problem(
        "it reaches devices only through rdma_cm, and librdmacm.so.1 is the system's, whose "
        "calls find no device; programs that open devices with ibv_open_device work");
}

void describe_use(const Inspection& in, Report& out) {
  const bool linked = std::any_of(in.libraries.begin(), in.libraries.end(),
                                  [](const Library& library) { return is_rdma(library.name); });
  std::vector<std::string> files = {in.program.file.path};
  for (const Library& library : in.libraries)
    if (!library.path.empty() && !is_rdma(library.name) && library.name.rfind("libc.so", 0) != 0)
      files.push_back(library.path);
  bool opens = false;
  for (const std::string& file : files)
    if (!linked && file_contains(file, "libibverbs.so")) {
      out.line("libraries", fmt::format("{} opens libibverbs itself (dlopen)", file));
      opens = true;
    }
  if (!linked && !opens)
    out.line("libraries", "no RDMA library is needed; plug-ins loaded later are not seen here");
  for (const auto& [path, provided] : kPaths)
    for (const std::string& file : files)
      if (file_contains(file, path)) {
        out.line("paths", fmt::format("{}: {} ({})", path,
                                      provided ? "shown by verbena run" : "not provided", file));
        break;
      }
}

}  // namespace

Result<DoctorReport> diagnose(const std::string& program, const std::string& folder) {
  const LibrarySearch search({folder});
  auto found = inspect_program(program, search);
  if (!found) return tl::unexpected(found.error());
  Inspection in{.program = std::move(*found), .libraries = {}, .folder = folder};
  Report out;
  describe_program(in, out);
  const auto choice = choose_mode(Mode::kAuto, in.program);
  if (!choice) {
    out.line("result", "will not run: " + choice.error().message);
    return DoctorReport{out.text, false};
  }
  in.libraries = needed_libraries(in.program.file, search);
  describe_libraries(in, out);
  describe_use(in, out);
  describe_symbols(in, out);
  check_ways_to_a_device(in, out);
  if (!out.problems.empty()) {
    const size_t more = out.problems.size() - 1;
    out.line("result", fmt::format("will not run: {}{}", out.problems[0],
                                   more > 0 ? fmt::format(" (and {} more)", more) : ""));
    return DoctorReport{out.text, false};
  }
  out.line("result", fmt::format("will run: verbena run --mode {} -- {} ({})",
                                 mode_name(choice->mode), program, choice->why));
  return DoctorReport{out.text, true};
}

}  // namespace verbena::tools
