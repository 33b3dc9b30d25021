// Stands in for libFuzzer where there is none: runs every file of the given folders and a fixed
// number of seeded mutations of each. A finding aborts and leaves its name on standard error.
//   fuzz_replay_NAME FOLDER...
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerFile = 400;
constexpr size_t kMaxInputBytes = 1 << 20;

void run(const std::vector<uint8_t>& input) {
  // A copy of exactly this size, so that address sanitizer sees a read one byte behind it.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<uint8_t> mutated(std::vector<uint8_t> input, verbena::Prng& prng) {
  const uint64_t steps = prng.between(1, 4);
  for (uint64_t step = 0; step < steps; ++step) {
    const size_t at = prng.below(input.size() + 1);
    switch (prng.below(5)) {
      case 0:
        if (at < input.size()) input[at] ^= static_cast<uint8_t>(1u << prng.below(8));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<uint8_t>(prng.next());
        break;
      case 2:
        input.resize(at);
        break;
      case 3:
        input.insert(input.begin() + static_cast<ptrdiff_t>(at), static_cast<uint8_t>(prng.next()));
        break;
      case 4:
        if (at < input.size()) input[at] = prng.below(2) == 0 ? 0xff : 0x00;
        break;
    }
  }
  return input;
}

int replay_folder(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  uint64_t seed = 1;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<uint8_t> input{std::istreambuf_iterator<char>(in), {}};
    if (input.size() > kMaxInputBytes) continue;
    std::fprintf(stderr, "%s, mutations of seed %llu\n", path.c_str(),
                 static_cast<unsigned long long>(seed));
    run(input);
    verbena::Prng prng(seed++);
    for (int i = 0; i < kMutationsPerFile; ++i) run(mutated(input, prng));
  }
  std::printf("%s: %zu inputs, %d mutations of each\n", folder, paths.size(), kMutationsPerFile);
  return static_cast<int>(paths.size());
}

}  // namespace

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) inputs += replay_folder(argv[i]);
  return inputs > 0 ? 0 : 1;  // an empty corpus tests nothing
}
