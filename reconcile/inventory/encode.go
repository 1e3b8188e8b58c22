package inventory

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// maxEncoded bounds what is unpacked: a ConfigMap is data that others can write.
const maxEncoded = 64 << 20

// stored is a Record as JSON. Its maps are written in the order of their keys.
type stored struct {
	// Objects are UIDs by kind/name.
	Objects map[string]types.UID `json:"objects"`
	Pools   []string             `json:"pools,omitempty"`
	// Revised says that the revision is beside the objects: an older version of plumbline did not
	// write it.
	Revised bool `json:"revised,omitempty"`
}

// encode packs a record without its Revision: of 10,000 objects it is about 300 kB, of the 1 MiB that
// a ConfigMap may have. The same record makes the same bytes.
func encode(r Record) ([]byte, error) {
	s := stored{Objects: make(map[string]types.UID, len(r.Objects)), Pools: slices.Sorted(maps.Keys(r.Pools)), Revised: true}
	for ref, uid := range r.Objects {
		s.Objects[ref.String()] = uid
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := json.NewEncoder(writer).Encode(s); err != nil {
		return nil, fmt.Errorf("encode the record of applied objects: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack the record of applied objects: %w", err)
	}
	return packed.Bytes(), nil
}

// decode unpacks a record; revised says that a Revision belongs to it.
func decode(packed []byte) (r Record, revised bool, err error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Record{}, false, fmt.Errorf("unpack the record of applied objects: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxEncoded))
	if err != nil {
		return Record{}, false, fmt.Errorf("unpack the record of applied objects: %w", err)
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return Record{}, false, fmt.Errorf("decode the record of applied objects: %w", err)
	}
	r = Record{Objects: make(map[render.Ref]types.UID, len(s.Objects)), Pools: make(map[string]bool, len(s.Pools))}
	for key, uid := range s.Objects {
		kind, name, _ := strings.Cut(key, "/")
		r.Objects[render.Ref{Kind: kind, Name: name}] = uid
	}
	for _, pool := range s.Pools {
		r.Pools[pool] = true
	}
	return r, s.Revised, nil
}
