package source

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// chains is a pack of a text and of deltas, each based on the object that is so many places before it.
func chains(deltas, apart, size int, byHash bool) (pack []byte, made []plumbing.Hash) {
	var out bytes.Buffer
	out.WriteString("PACK")
	_ = binary.Write(&out, binary.BigEndian, [2]uint32{2, uint32(apart + deltas)})
	var offsets []int
	add := func(kind, length int, reference []byte, content []byte) {
		offsets = append(offsets, out.Len())
		head := byte(kind<<4 | length&15)
		for length >>= 4; length > 0; length >>= 7 {
			out.WriteByte(head | 0x80)
			head = byte(length & 0x7f)
		}
		out.WriteByte(head)
		out.Write(reference)
		zipped := zlib.NewWriter(&out)
		_, _ = zipped.Write(content)
		_ = zipped.Close()
	}
	for i := range apart {
		text := strings.Repeat("0", size-8) + fmt.Sprintf("%08d", i)
		add(3, size, nil, []byte(text))
		made = append(made, plumbing.ComputeHash(plumbing.BlobObject, []byte(text)))
	}
	for i := range deltas {
		var delta []byte
		delta = binary.AppendUvarint(delta, uint64(size))
		delta = binary.AppendUvarint(delta, uint64(size))
		delta = append(delta, 0x80|0x70, byte(size-8), byte((size-8)>>8), byte((size-8)>>16), 8)
		text := fmt.Sprintf("%08d", apart+i)
		delta = append(delta, text...)
		back := len(out.Bytes()) - offsets[i]
		var reference []byte
		reference = append(reference, byte(back&0x7f))
		for back >>= 7; back > 0; back >>= 7 {
			back--
			reference = append([]byte{byte(back&0x7f) | 0x80}, reference...)
		}
		kind := 6
		if byHash {
			kind, reference = 7, made[i][:]
		}
		add(kind, len(delta), reference, delta)
		made = append(made, plumbing.ComputeHash(plumbing.BlobObject, []byte(strings.Repeat("0", size-8)+text)))
	}
	sum := sha1.Sum(out.Bytes())
	return append(out.Bytes(), sum[:]...), made
}

// TestLongChainsAreRefused shows that a pack of kilobytes cannot take minutes to read.
func TestLongChainsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		deltas, apart int
		byHash, fits  bool
	}{
		"none":             {0, 3, false, true},
		"the longest":      {longestChain, 1, false, true},
		"one more":         {longestChain + 1, 1, false, false},
		"several":          {3 * longestChain, 3, false, true},
		"several too long": {3*longestChain + 1, 3, false, false},
		"by hash":          {longestChain, 1, true, true},
		"by hash, more":    {longestChain + 1, 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newStore(t.TempDir(), newRoom(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.remove() }()
			pack, made := chains(c.deltas, c.apart, 2000, c.byHash)
			err = s.ingest(t.Context(), bytes.NewReader(pack), NewGit(Options{}).limits())
			var limit *LimitError
			switch {
			case !c.fits && (!errors.As(err, &limit) || !strings.Contains(err.Error(), "300 deltas")):
				t.Errorf("error %v, want a LimitError of 300 deltas", err)
			case c.fits && err != nil:
				t.Error(err)
			case c.fits && !s.has(made[len(made)-1]):
				t.Error("the last object is not there")
			}
			if left, err := os.ReadDir(s.packDir()); !c.fits && (err != nil || len(left) > 0) {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}

func TestDeltaHead(t *testing.T) {
	cases := map[string]struct {
		parts []string
		want  int64
	}{
		"small":       {[]string{"\x05\x07rest"}, 7},
		"two bytes":   {[]string{"\x05\x80\x01rest"}, 128},
		"large":       {[]string{"\x80\x80\x40\x80\x80\x80\x32rest"}, 100 << 20},
		"in parts":    {[]string{"\x85", "\x01\x80", "\x01", "rest"}, 128},
		"too large":   {[]string{"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, math.MaxInt64},
		"cut off":     {[]string{"\x05\x80"}, 0},
		"nothing":     {nil, 0},
		"one endless": {[]string{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var d deltaHead
			for _, p := range c.parts {
				if n, err := d.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := d.result(); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
