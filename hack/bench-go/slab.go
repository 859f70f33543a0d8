package main

import "math/bits"

// slab is a growing array whose parts never move and hold no pointers, so that the collector has nothing to look
// at in it. Places are handed out again when they are given back.
type slab[T any] struct {
	chunks [][]T
	free   []uint32
	next   uint32
}

const slabChunk = 1024

func (s *slab[T]) at(place uint32) *T { return &s.chunks[place/slabChunk][place%slabChunk] }

func (s *slab[T]) take() uint32 {
	if last := len(s.free) - 1; last >= 0 {
		place := s.free[last]
		s.free = s.free[:last]
		return place
	}
	if int(s.next) == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, make([]T, slabChunk))
	}
	s.next++
	return s.next - 1
}

func (s *slab[T]) give(place uint32) { s.free = append(s.free, place) }

// row is a read state among those of its user: 24 bytes. Of versions the low 32 bits are kept.
type row struct {
	channel, message  uint64
	version, mentions uint32
}

// runs hands out runs of rows that lie side by side, all of one size.
type runs struct {
	size, perChunk int
	chunks         [][]row
	free           []uint32
	next           uint32
}

// rowsChunk is 24 KiB, one of the sizes that the allocator gives without waste.
const rowsChunk = 1024

func runsOf(class int) runs {
	size := sizeOf(class)
	return runs{size: size, perChunk: max(1, rowsChunk/size)}
}

func (r *runs) at(run uint32) []row {
	chunk := int(run) / r.perChunk
	from := (int(run) - chunk*r.perChunk) * r.size
	return r.chunks[chunk][from : from+r.size]
}

func (r *runs) take() uint32 {
	if last := len(r.free) - 1; last >= 0 {
		run := r.free[last]
		r.free = r.free[:last]
		return run
	}
	if int(r.next) == len(r.chunks)*r.perChunk {
		r.chunks = append(r.chunks, make([]row, r.perChunk*r.size))
	}
	r.next++
	return r.next - 1
}

func (r *runs) give(run uint32) { r.free = append(r.free, run) }

// classes is as many as it takes for runs of 2^22 rows.
const classes = 8 + 4*20

// classOf is the smallest class of runs that hold this many rows, at least 1: sizes are 1 to 8, then four to each
// doubling.
func classOf(rows int) int {
	if rows <= 8 {
		return rows - 1
	}
	last := uint(rows - 1)
	shift := bits.Len(last) - 3
	return 8 + 4*(shift-1) + int(last>>shift) - 4
}

func sizeOf(class int) int {
	if class < 8 {
		return class + 1
	}
	return (class%4 + 5) << (class/4 - 1)
}
