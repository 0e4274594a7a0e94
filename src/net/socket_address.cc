#include "net/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <system_error>

namespace isotherm::net {
namespace {

// The interface behind the '%' of an address, by its name or its number; 0: there is none.
uint32_t scope_of(const std::string& text) {
  if (const uint32_t named = ::if_nametoindex(text.c_str()); named != 0) return named;
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? number : 0;
}

}  // namespace

SocketAddress::SocketAddress() { address_.v4.sin_family = AF_INET; }

std::optional<SocketAddress> SocketAddress::parse(const std::string& text, uint16_t port) {
  SocketAddress made;
  if (::inet_pton(AF_INET, text.c_str(), &made.address_.v4.sin_addr) == 1) {
    made.address_.v4.sin_port = htons(port);
    return made;
  }
  made.address_.v6 = {};
  made.address_.v6.sin6_family = AF_INET6;
  made.address_.v6.sin6_port = htons(port);
  const size_t percent = text.find('%');
  if (percent != std::string::npos) {
    made.address_.v6.sin6_scope_id = scope_of(text.substr(percent + 1));
    if (made.address_.v6.sin6_scope_id == 0) return std::nullopt;
  }
  const std::string number = text.substr(0, percent);
  if (::inet_pton(AF_INET6, number.c_str(), &made.address_.v6.sin6_addr) != 1) return std::nullopt;
  return made;
}

SocketAddress SocketAddress::end_of(int descriptor, NameOf name_of) {
  SocketAddress end;
  socklen_t size = sizeof end.address_;
  const bool known = name_of(descriptor, &end.address_.any, &size) == 0;
  return known && (end.family() == AF_INET || end.is_v6()) ? end : SocketAddress();
}

SocketAddress SocketAddress::local_of(int descriptor) { return end_of(descriptor, ::getsockname); }

SocketAddress SocketAddress::peer_of(int descriptor) { return end_of(descriptor, ::getpeername); }

std::string unix_path_of(int descriptor) {
  sockaddr_un end{};
  socklen_t size = sizeof end;
  const bool known = ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&end), &size) == 0;
  if (!known || end.sun_family != AF_UNIX) return {};
  return std::string(end.sun_path) + ":0";
}

uint16_t SocketAddress::port() const {
  return ntohs(is_v6() ? address_.v6.sin6_port : address_.v4.sin_port);
}

bool SocketAddress::is_loopback() const {
  if (is_v6()) return IN6_IS_ADDR_LOOPBACK(&address_.v6.sin6_addr);
  constexpr uint32_t network = 127;
  return ntohl(address_.v4.sin_addr.s_addr) >> 24 == network;
}

std::string SocketAddress::text() const {
  char number[INET6_ADDRSTRLEN] = "";
  const void* const from = is_v6() ? static_cast<const void*>(&address_.v6.sin6_addr)
                                   : static_cast<const void*>(&address_.v4.sin_addr);
  ::inet_ntop(family(), from, number, sizeof number);
  std::string made = number;
  if (is_v6()) {
    char name[IF_NAMESIZE] = "";
    const uint32_t scope = address_.v6.sin6_scope_id;
    if (scope != 0) {
      made += '%';
      made += ::if_indextoname(scope, name) != nullptr ? name : std::to_string(scope);
    }
    made = "[" + made + "]";
  }
  return made + ":" + std::to_string(port());
}

std::optional<BindAddress> BindAddress::parse(std::string_view text, uint16_t port) {
  const bool optional = text.starts_with('-');
  if (optional) text.remove_prefix(1);
  const std::string name(text == "*" ? "0.0.0.0" : text == "::*" ? "::" : text);
  const auto address = SocketAddress::parse(name, port);
  return address ? std::optional(BindAddress{*address, optional}) : std::nullopt;
}

bool BindAddress::is_left_out(const std::error_code& why) const {
  constexpr int missing[] = {EADDRNOTAVAIL, EAFNOSUPPORT,    EPFNOSUPPORT,
                             ENOPROTOOPT,   EPROTONOSUPPORT, ESOCKTNOSUPPORT};
  return optional &&
         std::find(std::begin(missing), std::end(missing), why.value()) != std::end(missing);
}

}  // namespace isotherm::net
