package usage_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/internal/usage"
)

// TestPeakIsTheMost: memory that was released counts, and none from before the measurement.
func TestPeakIsTheMost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says it")
	}
	const much = 256 << 20
	touch(much)
	peak := usage.Peak()
	before := peak()
	if before == 0 {
		t.Skip("the kernel does not say it")
	}
	if touch(much); peak() < before+much/2 {
		t.Errorf("%d bytes at the peak, %d before %d more", peak(), before, much)
	}
	if again := usage.Peak()(); again > before+much/2 {
		t.Errorf("%d bytes after it began again, %d before", again, before)
	}
}

// touch makes the process allocate memory that it no longer needs.
func touch(bytes int) {
	memory := make([]byte, bytes)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	runtime.KeepAlive(memory)
}

func TestCPUGrows(t *testing.T) {
	before := usage.CPU()
	for until := time.Now().Add(time.Minute); usage.CPU() == before; {
		if touch(1 << 20); time.Now().After(until) {
			t.Fatal("no processor time is counted")
		}
	}
}
