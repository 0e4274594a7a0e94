// The text of INFO: which sections it has.

#include <algorithm>
#include <array>
#include <string>

#include "net/resp/handlers.h"
#include "net/resp/info_sections.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

struct Section {
  std::string_view title;
  info_sections::Write* write;
  std::string_view name;  // as asked for, in any case
  bool by_default = true;
};

constexpr std::array<Section, 14> all_sections = {{
    {"Server", info_sections::server, "server"},
    {"Clients", info_sections::clients, "clients"},
    {"Memory", info_sections::memory, "memory"},
    {"Persistence", info_sections::persistence, "persistence"},
    {"Stats", info_sections::stats, "stats"},
    {"Batches", info_sections::batches, "batches"},
    {"Replication", info_sections::replication, "replication"},
    {"CPU", info_sections::cpu, "cpu"},
    {"Modules", info_sections::modules, "modules"},
    {"Commandstats", info_sections::commandstats, "commandstats", false},
    {"Errorstats", info_sections::errorstats, "errorstats"},
    {"Cluster", info_sections::cluster, "cluster"},
    {"Isotherm", info_sections::isotherm, "isotherm"},
    {"Keyspace", info_sections::keyspace, "keyspace"},
}};

bool wanted(const Section& section, Arguments asked) {
  if (asked.empty()) return section.by_default;
  return std::any_of(asked.begin(), asked.end(), [&](std::string_view name) {
    return equals_ignoring_case(name, section.name) || equals_ignoring_case(name, "all") ||
           equals_ignoring_case(name, "everything") ||
           (equals_ignoring_case(name, "default") && section.by_default);
  });
}

}  // namespace

std::string info_text(ServerState& server, Arguments sections) {
  const Statistics statistics = server.statistics();
  std::string text;
  InfoLines lines(text);
  for (const Section& section : all_sections) {
    if (!wanted(section, sections)) continue;
    lines.section(section.title);
    section.write(server, statistics, lines);
  }
  return text;
}

}  // namespace isotherm::net
