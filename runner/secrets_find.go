package runner

import (
	"bytes"
	"slices"
)

// patterns finds many texts in one pass over the data, however many they are (after Wu and Manber): a window as long as
// the shortest pattern is moved along, and what its last letters are tells how far it may be moved without missing one.
// Most moves are as long as the window.
type patterns struct {
	list   [][]byte // the longest first
	window int
	moves  [tableSize]uint8
	// ending are the patterns whose window ends in letters of that hash.
	ending map[uint16][]int32
	bearer bool
}

const (
	blockSize = 3 // letters that are looked at together
	tableSize = 1 << 13
	maxMove   = 255
)

func hash(block []byte) uint16 {
	return (uint16(block[0])<<10 ^ uint16(block[1])<<5 ^ uint16(block[2])) % tableSize
}

// bearerWords announce a token.
var bearerWords = []string{"Bearer ", "bearer ", "BEARER "}

const (
	shortestToken = 3
	// longestToken is how much of a token is waited for when a text comes in pieces. Servers take less.
	longestToken = 8 << 10
)

func newPatterns(forms [][]byte, bearer bool) *patterns {
	p := &patterns{list: forms, window: maxMove, ending: map[uint16][]int32{}, bearer: bearer}
	slices.SortStableFunc(p.list, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	p.list = slices.CompactFunc(p.list, bytes.Equal)
	all := slices.Clone(p.list)
	if bearer {
		for _, word := range bearerWords {
			all = append(all, []byte(word)) // behind those of the list, so that only finding knows them
		}
	}
	for _, form := range all {
		p.window = min(p.window, len(form))
	}
	for i := range p.moves {
		p.moves[i] = uint8(p.window - blockSize + 1)
	}
	for i, form := range all {
		for end := blockSize; end <= p.window; end++ {
			h := hash(form[end-blockSize : end])
			p.moves[h] = min(p.moves[h], uint8(p.window-end))
			if end == p.window {
				p.ending[h] = append(p.ending[h], int32(i))
			}
		}
	}
	return p
}

// find gives the next place from at on that holds a secret, or several that overlap; start is -1 where there is none.
func (p *patterns) find(data []byte, at int) (start, end int) {
	start = -1
	for i := at; i+p.window <= len(data); {
		if start >= 0 && i >= end {
			break
		}
		h := hash(data[i+p.window-blockSize : i+p.window])
		if move := p.moves[h]; move > 0 {
			i += int(move)
			continue
		}
		if from, to := p.at(data, i, h); to > 0 {
			if start < 0 || from < start {
				start = from
			}
			end = max(end, to)
		}
		i++
	}
	return start, end
}

// at is the longest secret that begins at i, or the token that is announced there; to is 0 where there is none.
func (p *patterns) at(data []byte, i int, h uint16) (from, to int) {
	for _, n := range p.ending[h] {
		if int(n) >= len(p.list) {
			word := bearerWords[int(n)-len(p.list)]
			if !bytes.HasPrefix(data[i:], []byte(word)) {
				continue
			}
			if from, to = token(data, i+len(word)); to-from >= shortestToken {
				return from, to
			}
			continue
		}
		if form := p.list[n]; bytes.HasPrefix(data[i:], form) {
			return i, i + len(form)
		}
	}
	return 0, 0
}

// token is what stands there in letters that tokens are made of (RFC 6750), behind any more blanks.
func token(data []byte, at int) (from, to int) {
	for at < len(data) && data[at] == ' ' {
		at++
	}
	from = at
	for at < len(data) && inToken(data[at]) {
		at++
	}
	return from, at
}

func inToken(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || bytes.IndexByte([]byte("-._~+/="), b) >= 0
}

// begun is how many of the last bytes may be the beginning of a secret whose rest is still to come.
func (p *patterns) begun(data []byte) int {
	if p == nil || len(data) == 0 {
		return 0
	}
	longest := 0
	last := data[len(data)-1]
	for _, form := range p.list {
		for n := min(len(form)-1, len(data)); n > longest; n-- {
			if n = bytes.LastIndexByte(form[:n], last) + 1; n <= longest {
				break
			}
			if bytes.HasSuffix(data, form[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// openToken is how many of the last bytes are a token, or its announcement, that may go on.
func (p *patterns) openToken(data []byte) int {
	if p == nil || !p.bearer {
		return 0
	}
	tail := data[max(0, len(data)-longestToken):]
	end := len(tail)
	for end > 0 && inToken(tail[end-1]) {
		end--
	}
	for end > 0 && tail[end-1] == ' ' {
		end--
	}
	for _, word := range bearerWords {
		word = word[:len(word)-1]
		for n := len(word); n > 0; n-- {
			// The whole word and what follows it, or the beginning of the word at the very end.
			switch {
			case n == len(word) && bytes.HasSuffix(tail[:end], []byte(word)):
				return len(tail) - end + n
			case bytes.HasSuffix(tail, []byte(word[:n])):
				return n
			}
		}
	}
	return 0
}
