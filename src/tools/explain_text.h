// What a completion status, an errno, an event of rdma_cm or a rejection means in RDMA: which call
// gives it, what usually causes it and what to change. The words `verbena explain` prints.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

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
std::span<const Explanation> event_explanations();   // RDMA_CM_EVENT_*, in numeric order, 0..15
std::span<const Explanation> reject_explanations();  // IB_CM_REJ_*, in numeric order
std::span<const Explanation> sidr_explanations();    // IB_SIDR_*, in numeric order
// All of the above, in this order but with the rejections before the events.
std::vector<std::span<const Explanation>> all_explanations();

// What a program was doing when it gave up with a sentence of its own.
struct Step {
  const char* text;
  const char* causes;  // one per line
  const char* change;
};

// The step of a sentence that perftest or ibv_*_pingpong prints without an errno, or nullptr.
const Step* step_in_sentence(std::string_view sentence);

// Every explanation that `query` names: a number (of all kinds, or of one: "REJ 8", "event 8"; a
// negative one is an errno), the name of a kind ("REJ": a line for each), a
// name with or without its prefix ("IBV_WC_", "RDMA_CM_EVENT_") in any case, words of the printed
// sentence, or a program's whole sentence, where an event of rdma_cm brings the meaning of the
// number behind it. Empty when nothing fits.
std::string explain_query(std::string_view query);

// The explanation that `line` names: by its name, as "REJ 8" or "SIDR status 1", or by its sentence
// (of an errno: at the end, as perror() puts it). Names win over sentences. Or nullptr.
const Explanation* find_in_line(std::string_view line);

// The layout of one explanation, and of a list of them, a line each.
std::string explanation_text(const Explanation& explanation);
std::string explanation_list(std::span<const Explanation> list);

}  // namespace verbena::tools
