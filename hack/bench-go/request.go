package main

import (
	"bytes"
	"errors"
)

// Most bytes of a request's head and of its body.
const (
	mostHead = 16 << 10
	mostBody = 4 << 20
)

var errRequest = errors.New("no HTTP/1.1 request that is served here")

// request is one of HTTP/1.1; its parts lie in the bytes that were read.
type request struct {
	method, path, body []byte
	// The client wants no more after it.
	last bool
}

// parseRequest reads the first request of input; a length of 0 says that it is not whole yet.
func parseRequest(input []byte) (found request, length int, err error) {
	end := bytes.Index(input[:min(len(input), mostHead)], []byte("\r\n\r\n"))
	if end < 0 {
		if len(input) >= mostHead {
			return found, 0, errRequest
		}
		return found, 0, nil
	}
	line, rest, _ := bytes.Cut(input[:end], []byte("\r\n"))
	var version []byte
	found.method, line, _ = bytes.Cut(line, []byte(" "))
	found.path, version, _ = bytes.Cut(line, []byte(" "))
	if string(version) != "HTTP/1.1" {
		return found, 0, errRequest
	}
	body := uint64(0)
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case equalFold(name, "content-length"):
			var ok bool
			if body, ok = parseNumber(value); !ok || body > mostBody {
				return found, 0, errRequest
			}
		case equalFold(name, "connection"):
			found.last = equalFold(value, "close")
		case equalFold(name, "transfer-encoding"):
			return found, 0, errRequest
		}
	}
	start := end + len("\r\n\r\n")
	length = start + int(body)
	if len(input) < length {
		return found, 0, nil
	}
	found.body = input[start:length]
	return found, length, nil
}

// equalFold compares with ASCII letters in lower case.
func equalFold(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, b := range text {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}

// parseNumber reads decimal digits and nothing else.
func parseNumber(text []byte) (uint64, bool) {
	number := uint64(0)
	for _, b := range text {
		digit := uint64(b - '0')
		if digit > 9 || number > (1<<64-1-digit)/10 {
			return 0, false
		}
		number = number*10 + digit
	}
	return number, len(text) > 0
}

// cutNumber reads the number at the head of a path, up to a slash or the end.
func cutNumber(path []byte) (number uint64, rest []byte, ok bool) {
	end := bytes.IndexByte(path, '/')
	if end < 0 {
		end = len(path)
	}
	number, ok = parseNumber(path[:end])
	return number, path[end:], ok && number > 0
}

// object reads a JSON object whose values are numbers, strings of digits, or lists of these, as all requests of the
// API are that are served here; every list is handed to each, element by element, with the member's name.
func object(body []byte, each func(name []byte, number uint64) bool) bool {
	scan := scanner{body}
	if !scan.take('{') {
		return false
	}
	for {
		name, ok := scan.quoted()
		if !ok || !scan.take(':') {
			return false
		}
		if scan.take('[') {
			for {
				number, ok := scan.number()
				if !ok || !each(name, number) {
					return false
				}
				if !scan.take(',') {
					break
				}
			}
			if !scan.take(']') {
				return false
			}
		} else if number, ok := scan.number(); !ok || !each(name, number) {
			return false
		}
		if !scan.take(',') {
			break
		}
	}
	return scan.take('}') && len(bytes.TrimSpace(scan.rest)) == 0
}

type scanner struct{ rest []byte }

func (s *scanner) take(b byte) bool {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	if len(s.rest) == 0 || s.rest[0] != b {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// quoted reads a string; one with a backslash is none of the names of the API.
func (s *scanner) quoted() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	text, rest, ok := bytes.Cut(s.rest, []byte(`"`))
	s.rest = rest
	return text, ok && bytes.IndexByte(text, '\\') < 0
}

// number reads digits, in quotes or not.
func (s *scanner) number() (uint64, bool) {
	if text, ok := s.quoted(); ok {
		return parseNumber(text)
	}
	end := 0
	for end < len(s.rest) && '0' <= s.rest[end] && s.rest[end] <= '9' {
		end++
	}
	number, ok := parseNumber(s.rest[:end])
	s.rest = s.rest[end:]
	return number, ok
}
