package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

const (
	recordFile = "sandbox.json"
	logFile    = "sandbox.log"
	lockName   = "sandbox"
	// lockPatience is how long a lock must be held to count as held.
	lockPatience = 100 * time.Millisecond
)

// errNotUp means that no sandbox runs in a folder.
var errNotUp = errors.New("no sandbox is up")

// record is what a running sandbox writes about itself in its folder. It is valid only while the process holds the
// folder's lock.
type record struct {
	PID     int               `json:"pid"`
	Started time.Time         `json:"started"`
	Bin     string            `json:"bin"`
	Env     map[string]string `json:"env"`
}

// folder returns the sandbox's folder: that of the flag, or the default one.
func folder(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	cache, err := binaries.DefaultCache()
	return filepath.Join(cache, "up"), err
}

// write writes the record into the folder, atomically.
func (r record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	if err := os.WriteFile(path+".partial", data, 0o600); err != nil {
		return fmt.Errorf("write the sandbox's record: %w", err)
	}
	return os.Rename(path+".partial", path)
}

// readRecord reads the record of the sandbox that runs in the folder. The error is errNotUp if none does, even if an
// earlier one left a record.
func readRecord(ctx context.Context, dir string) (record, error) {
	var r record
	if unlock, err := tryLock(ctx, dir); err == nil {
		unlock()
		return r, fmt.Errorf("%w in %s: start one with `make sandbox`", errNotUp, dir)
	}
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w in %s yet: it is starting", errNotUp, dir)
	}
	if err != nil {
		return r, fmt.Errorf("read the sandbox's record: %w", err)
	}
	return r, json.Unmarshal(data, &r)
}

// tryLock acquires the folder's lock if it is free.
func tryLock(ctx context.Context, dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	return binaries.Lock(ctx, dir, lockName)
}
