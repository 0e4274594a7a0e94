package main

import (
	"encoding/binary"
	"fmt"
	"net"
)

// Bytes of the header before each datagram of memcached.
const frameBytes = 8

// datagrams is a connection to a memcached server by UDP: what is written at once goes as a request of
// one datagram, and what is read is the replies to the last one, as bytes behind one another.
type datagrams struct {
	*net.UDPConn
	id     uint16
	number uint16 // of the datagram that comes next
	rest   []byte
	buffer [64 << 10]byte
}

func dialDatagrams(c codec, address string) (*client, error) {
	conn, err := net.DialTimeout("udp", address, replyTimeout)
	if err != nil {
		return nil, err
	}
	return newClient(c, &datagrams{UDPConn: conn.(*net.UDPConn)}), nil
}

func (d *datagrams) Write(request []byte) (int, error) {
	d.id++
	d.number = 0
	header := [frameBytes]byte{5: 1}
	binary.BigEndian.PutUint16(header[:], d.id)
	if _, err := d.UDPConn.Write(append(header[:], request...)); err != nil {
		return 0, err
	}
	return len(request), nil
}

// Read takes datagrams in order only: on the loopback interface they come as they were sent, and none is
// lost unless the receiver's buffer is full, which is an error here.
func (d *datagrams) Read(to []byte) (int, error) {
	for len(d.rest) == 0 {
		n, err := d.UDPConn.Read(d.buffer[:])
		if err != nil {
			return 0, err
		}
		if n < frameBytes {
			return 0, fmt.Errorf("a datagram of %d bytes", n)
		}
		id, number := binary.BigEndian.Uint16(d.buffer[:]), binary.BigEndian.Uint16(d.buffer[2:])
		if id != d.id || number != d.number {
			return 0, fmt.Errorf("datagram %d of request %d, not %d of %d", number, id, d.number, d.id)
		}
		d.number = (number + 1) % binary.BigEndian.Uint16(d.buffer[4:])
		d.rest = d.buffer[frameBytes:n]
	}
	n := copy(to, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
