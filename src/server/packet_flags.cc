#include "server/packet_flags.h"

#include <optional>
#include <string_view>

#include "server/flag_values.h"

namespace isotherm {
namespace {

std::optional<net::PacketSource> parse_source(std::string_view text) {
  if (text == "ring") return net::PacketSource::ring;
  if (text == "xdp") return net::PacketSource::xdp;
  return {};
}

}  // namespace

void add_packet_options(CLI::App& app, net::ServerOptions& options) {
  app.add_option("--memcached-packets", options.memcached_packets,
                 "Network interface with requests of memcached by UDP, whose frames are read as "
                 "they come; the GPU of --gpu-items answers the gets among them [none]");
  add_choice(
      app, "--memcached-packets-source",
      "How its frames are read: from a ring that the kernel copies them into, or by a program of "
      "XDP before the kernel sees them: ring or xdp [ring]",
      "ring, xdp", parse_source, options.memcached_packets_source);
  app.add_option("--memcached-packets-address", options.memcached_packets_address,
                 "Address of a UDP socket in the place of such an interface [none]");
  app.add_option("--memcached-packets-port", options.memcached_packets_port,
                 "UDP port of these requests; 0, with an address, takes any free port [11211]")
      ->check(CLI::Range(0, 65'535));
}

}  // namespace isotherm
