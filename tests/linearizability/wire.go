package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A request is one command on the wire: several inputs for MGET, MSET and FLUSHALL, else one.
type request struct {
	inputs []*input
}

func (q *request) kind() kind { return q.inputs[0].kind }

// A codec speaks one protocol. Keys are given by number; names maps them.
type codec interface {
	// append writes the request's bytes.
	append(buffer []byte, q *request, names []string) []byte
	// read reads its reply: one output per input.
	read(r *bufio.Reader, q *request, names []string) ([]*output, error)
	// appendSet and appendDelete are for load whose answers (one line each) do not matter.
	appendSet(buffer []byte, key string, value []byte) []byte
	appendDelete(buffer []byte, key string) []byte
}

// Of a machine that does much else, too.
const replyTimeout = 120 * time.Second

type client struct {
	codec  codec
	conn   net.Conn
	reader *bufio.Reader
	buffer []byte
}

func dial(c codec, address string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, replyTimeout)
	if err != nil {
		return nil, err
	}
	return newClient(c, conn), nil
}

func newClient(c codec, conn net.Conn) *client {
	return &client{codec: c, conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}
}

func (c *client) send() error {
	deadline := time.Now().Add(replyTimeout)
	if err := c.conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := c.conn.Write(c.buffer)
	c.buffer = c.buffer[:0]
	return err
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(line, "\r\n") {
		return "", fmt.Errorf("a line that does not end in CR LF: %q", line)
	}
	return line[:len(line)-2], nil
}

// readBlock reads n bytes and the CR LF after them.
func readBlock(r *bufio.Reader, n int) (string, error) {
	block := make([]byte, n+2)
	if _, err := io.ReadFull(r, block); err != nil {
		return "", err
	}
	if string(block[n:]) != "\r\n" {
		return "", fmt.Errorf("a value of %d bytes is not followed by CR LF", n)
	}
	return string(block[:n]), nil
}

func present(value string) *output { return &output{sight: seenPresent, value: value} }

func absent() *output { return &output{sight: seenAbsent} }

func unexpected(q *request, reply string) error {
	return fmt.Errorf("unexpected reply to %v: %q", q.inputs[0], brief(reply))
}

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
