// What a completion status or errno means in RDMA: which call gives it, what usually causes it and
// what to change. The words `verbena explain` prints.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace verbena::tools {

struct Explanation {
  int number;
  const char* name;    // "IBV_WC_RETRY_EXC_ERR", "ENOMEM"
  const char* text;    // the sentence programs print for it
  const char* where;   // which call or which side reports it
  const char* causes;  // one per line
  const char* change;  // what to do, one per line
};

std::span<const Explanation> status_explanations();  // IBV_WC_*, in numeric order, 0..23
std::span<const Explanation> errno_explanations();

// What a program was doing when it gave up with a sentence of its own.
struct Step {
  const char* text;
  const char* causes;  // one per line
  const char* change;
};

// The step of a sentence that perftest or ibv_*_pingpong prints without an errno, or nullptr.
const Step* step_in_sentence(std::string_view sentence);

// Every explanation that `query` names: a number (both kinds), a name with or without "IBV_WC_"
// in any case, words of the printed sentence, or a program's whole sentence. Empty when nothing
// fits.
std::string explain_query(std::string_view query);

// The explanation whose name or sentence stands in `line`, or nullptr. Names win over sentences.
const Explanation* find_in_line(std::string_view line);

// The layout of one explanation.
std::string explanation_text(const Explanation& explanation);

}  // namespace verbena::tools
