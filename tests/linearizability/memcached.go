package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// memcachedCodec speaks memcached's text protocol.
type memcachedCodec struct{}

func appendStorage(buffer []byte, verb, key string, value string, version uint64) []byte {
	buffer = append(buffer, verb...)
	buffer = append(buffer, ' ')
	buffer = append(buffer, key...)
	buffer = append(buffer, " 0 0 "...)
	buffer = strconv.AppendInt(buffer, int64(len(value)), 10)
	if verb == "cas" {
		buffer = append(buffer, ' ')
		buffer = strconv.AppendUint(buffer, version, 10)
	}
	buffer = append(buffer, "\r\n"...)
	buffer = append(buffer, value...)
	return append(buffer, "\r\n"...)
}

func (memcachedCodec) append(buffer []byte, q *request, names []string) []byte {
	in := q.inputs[0]
	key := names[in.key]
	switch in.kind {
	case opGet, opGets:
		buffer = append(buffer, kindNames[in.kind]...)
		for _, in := range q.inputs {
			buffer = append(buffer, ' ')
			buffer = append(buffer, names[in.key]...)
		}
		return append(buffer, "\r\n"...)
	case opSet:
		verb := [...]string{always: "set", ifAbsent: "add", ifPresent: "replace"}[in.condition]
		return appendStorage(buffer, verb, key, in.value, 0)
	case opCas:
		return appendStorage(buffer, "cas", key, in.value, in.version)
	case opAppend:
		return appendStorage(buffer, "append", key, in.value, 0)
	case opPrepend:
		return appendStorage(buffer, "prepend", key, in.value, 0)
	case opDelete:
		return append(buffer, "delete "+key+"\r\n"...)
	case opIncrement:
		return append(buffer, fmt.Sprintf("incr %s %d\r\n", key, in.delta)...)
	}
	panic("memcached has no " + kindNames[in.kind])
}

func (memcachedCodec) read(r *bufio.Reader, q *request, names []string) ([]*output, error) {
	if q.kind() == opGet || q.kind() == opGets {
		return readValues(r, q, names)
	}
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	out, ok := decodeLine(q.inputs[0], line)
	if !ok {
		return nil, unexpected(q, line)
	}
	return []*output{out}, nil
}

// readValues reads "VALUE key flags bytes [cas]" blocks up to END; absent keys have none.
func readValues(r *bufio.Reader, q *request, names []string) ([]*output, error) {
	outs := make([]*output, 0, len(q.inputs))
	for {
		line, err := readLine(r)
		if err != nil {
			return nil, err
		}
		if line == "END" {
			break
		}
		words := strings.Fields(line)
		want := 4
		if q.kind() == opGets {
			want = 5
		}
		if len(words) != want || words[0] != "VALUE" || words[2] != "0" {
			return nil, unexpected(q, line)
		}
		for len(outs) < len(q.inputs) && names[q.inputs[len(outs)].key] != words[1] {
			outs = append(outs, absent())
		}
		n, err := strconv.Atoi(words[3])
		if err != nil || n < 0 || n > 1<<30 || len(outs) == len(q.inputs) {
			return nil, unexpected(q, line)
		}
		value, err := readBlock(r, n)
		if err != nil {
			return nil, err
		}
		out := present(value)
		if want == 5 {
			if out.version, err = strconv.ParseUint(words[4], 10, 64); err != nil {
				return nil, unexpected(q, line)
			}
		}
		outs = append(outs, out)
	}
	for len(outs) < len(q.inputs) {
		outs = append(outs, absent())
	}
	return outs, nil
}

func decodeLine(in *input, line string) (*output, bool) {
	if strings.HasPrefix(line, "SERVER_ERROR out of memory") {
		return &output{code: refused}, true
	}
	switch in.kind {
	case opSet, opAppend, opPrepend:
		return decodeStored(in, line)
	case opCas:
		switch line {
		case "STORED":
			return &output{sight: seenPresent}, true
		case "EXISTS":
			return &output{code: mismatch, sight: seenPresent}, true
		case "NOT_FOUND":
			return &output{code: unmet, sight: seenAbsent}, true
		}
	case opDelete:
		switch line {
		case "DELETED":
			return &output{sight: seenPresent}, true
		case "NOT_FOUND":
			return absent(), true
		}
	case opIncrement:
		switch line {
		case "NOT_FOUND":
			return &output{code: unmet, sight: seenAbsent}, true
		case "CLIENT_ERROR cannot increment or decrement non-numeric value":
			return &output{code: notInteger, sight: seenPresent}, true
		}
		number, err := parseInt(line)
		return &output{sight: seenPresent, number: number}, err == nil
	}
	return nil, false
}

func decodeStored(in *input, line string) (*output, bool) {
	out := &output{}
	switch line {
	case "STORED":
	case "NOT_STORED":
		out.code = unmet
	default:
		return nil, false
	}
	switch in.condition {
	case ifAbsent:
		out.sight = seenPresent
		if out.code == done {
			out.sight = seenAbsent
		}
	case ifPresent:
		out.sight = seenAbsent
		if out.code == done {
			out.sight = seenPresent
		}
	default:
		return out, out.code == done
	}
	return out, true
}

func (memcachedCodec) appendSet(buffer []byte, key string, value []byte) []byte {
	buffer = append(buffer, "set "...)
	buffer = append(buffer, key...)
	buffer = append(buffer, " 0 0 "...)
	buffer = strconv.AppendInt(buffer, int64(len(value)), 10)
	buffer = append(buffer, "\r\n"...)
	buffer = append(buffer, value...)
	return append(buffer, "\r\n"...)
}

func (memcachedCodec) appendDelete(buffer []byte, key string) []byte {
	return append(buffer, "delete "+key+"\r\n"...)
}
