// A client of the scripts: one TCP connection, bytes out, bytes in; or a UDP socket, where what is
// sent at once is a datagram with memcached's header, and what is read is what stands behind those
// of the replies.
//
// Sending never blocks on a server that is itself blocked on writing: while the socket takes no
// more, what has arrived is read into the buffer. Reading waits until a deadline far beyond any
// healthy answer (a sanitizer build on a loaded machine included); running into it is a failure,
// never a measure of speed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isotherm::scripts {

// How input is cut into segments. `pieces` sends the beginning and the end of what it is given byte
// by byte and the middle of long input in odd sizes, so that every boundary of a parser is hit.
enum class Cut { whole, pieces };

class Client {
 public:
  enum class Over { tcp, udp };
  Client(const std::string& host, uint16_t port, Over over = Over::tcp);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False when the server has closed the connection.
  bool send(std::string_view bytes, Cut cut);
  // Exactly `size` bytes; fewer at the end of the connection or at the deadline.
  std::string read(size_t size);
  // Up to and without the next \r\n; all that came where there is none.
  std::string read_line();
  // What has already arrived, for messages.
  std::string drain();
  // True when the server closes the connection and sends nothing before it.
  bool wait_closed();
  bool closed() const { return closed_; }

 private:
  bool send_piece(std::string_view bytes);
  bool send_datagram(std::string_view bytes);
  std::string_view take_header(std::string_view datagram);
  // Waits for input and appends it to the buffer; false at the end or at the deadline.
  bool fill(int timeout_ms);

  int socket_;
  const Over over_;
  uint16_t request_ = 0;   // of the last datagram
  uint16_t expected_ = 0;  // number of the next one of its reply
  bool closed_ = false;
  std::string buffer_;
  size_t taken_ = 0;
};

}  // namespace isotherm::scripts
