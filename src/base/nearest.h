// The known word that a misspelt one was meant to be: for "did you mean ...?".
#pragma once

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace verbena {

// How many letters must be put in, taken out, changed or swapped with their neighbour to make one
// word of the other.
inline size_t spelling_distance(std::string_view a, std::string_view b) {
  // Nobody means a short word by a very long one; what they take to compare is the product.
  constexpr size_t kFar = 64;
  const size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) > kFar) return longer;
  std::vector<size_t> before, last, row(b.size() + 1);  // of the words' beginnings
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = last[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({changed, row[j] + 1, last[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

struct Nearest {
  std::string_view word;  // "" of no words
  size_t slips = 0;       // letters away
};

// The first of the nearest among `words`.
template <typename Words>
Nearest nearest_word(std::string_view name, const Words& words) {
  Nearest best;
  for (std::string_view known : words)
    if (const size_t away = spelling_distance(name, known); best.word.empty() || away < best.slips)
      best = {known, away};
  return best;
}

}  // namespace verbena
