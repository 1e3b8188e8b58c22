package source

import (
	"strings"
	"sync"
)

// firstBytes keeps the beginning of what a program says, and drops the rest.
type firstBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if room := maxRefusal - len(f.kept); room > 0 {
		f.kept = append(f.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// String is what was kept, on one line.
func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(strings.Fields(string(f.kept)), " ")
}
