package main

import (
	"encoding/binary"
	"strconv"
)

const (
	jsonType  = "application/json"
	textType  = "text/plain"
	batchType = "application/vnd.readstates.batch"
	// A length is filled in when it is known: with leading zeros, as RFC 9110 allows.
	lengthDigits = 8
)

// appendAnswer appends an answer whose body is appended by write.
func appendAnswer(out []byte, status, kind string, write func([]byte) []byte) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = append(out, status...)
	out = append(out, "\r\ncontent-type: "...)
	out = append(out, kind...)
	out = append(out, "\r\ncontent-length: "...)
	at := len(out)
	out = append(out, "00000000\r\n\r\n"...)
	start := len(out)
	out = write(out)
	for i, length := at+lengthDigits-1, len(out)-start; length > 0; i-- {
		out[i] = byte('0' + length%10)
		length /= 10
	}
	return out
}

func appendState(out []byte, one state) []byte {
	out = append(out, `{"channel_id":"`...)
	out = strconv.AppendUint(out, one.channel, 10)
	if one.message == 0 {
		out = append(out, `","last_message_id":null`...)
	} else {
		out = append(out, `","last_message_id":"`...)
		out = strconv.AppendUint(out, one.message, 10)
		out = append(out, '"')
	}
	out = append(out, `,"mention_count":`...)
	out = strconv.AppendUint(out, uint64(one.mentions), 10)
	out = append(out, `,"flags":0,"last_viewed":0,"last_pin_timestamp":null,"version":"`...)
	out = strconv.AppendUint(out, one.version, 10)
	return append(out, `"}`...)
}

func appendStates(out []byte, user, version uint64, states []state) []byte {
	out = append(out, `{"user_id":"`...)
	out = strconv.AppendUint(out, user, 10)
	out = append(out, `","version":"`...)
	out = strconv.AppendUint(out, version, 10)
	out = append(out, `","partial":false,"read_states":[`...)
	for i, one := range states {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendState(out, one)
	}
	return append(out, "]}"...)
}

func appendAck(out []byte, applied bool, version uint64, now state) []byte {
	out = append(out, `{"applied":`...)
	out = strconv.AppendBool(out, applied)
	out = append(out, `,"version":"`...)
	out = strconv.AppendUint(out, version, 10)
	out = append(out, `","read_state":`...)
	out = appendState(out, now)
	return append(out, '}')
}

// The frames of POST /v1/batch, as readstates/api/src/batch.rs has them.
const (
	headerBytes = 16
	recordBytes = 32
	mostRecords = 65536
	opAck       = 1
	opMention   = 3

	outcomeApplied = 0
	outcomeIgnored = 1
	outcomeBad     = 2
)

// frameRecords splits a frame; nil when it is none.
func frameRecords(frame []byte) []byte {
	if len(frame) < headerBytes || string(frame[:8]) != "RSB1\x01\x00\x00\x00" {
		return nil
	}
	count := binary.LittleEndian.Uint32(frame[8:])
	records := frame[headerBytes:]
	if count == 0 || count > mostRecords || len(records) != int(count)*recordBytes {
		return nil
	}
	return records
}

// appendOutcomes applies the records and appends the answer's frame.
func appendOutcomes(out []byte, store store, records []byte) []byte {
	out = append(out, "RSR1\x01\x00\x00\x00"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(records)/recordBytes))
	out = append(out, 0, 0, 0, 0)
	for ; len(records) > 0; records = records[recordBytes:] {
		out = append(out, apply(store, records[:recordBytes]))
	}
	return out
}

func apply(store store, record []byte) byte {
	word := binary.LittleEndian.Uint64
	user, channel, message := word(record[8:]), word(record[16:]), word(record[24:])
	arg := binary.LittleEndian.Uint32(record[4:])
	if user == 0 || channel == 0 || message == 0 || record[1]|record[2]|record[3] != 0 {
		return outcomeBad
	}
	applied := false
	switch {
	case record[0] == opAck && arg == 0:
		_, _, applied = store.ack(user, channel, message)
	case record[0] == opMention && arg > 0:
		applied = store.mention(user, channel, message, arg)
	default:
		return outcomeBad
	}
	if applied {
		return outcomeApplied
	}
	return outcomeIgnored
}
