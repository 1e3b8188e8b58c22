package main

import (
	"strings"
	"testing"
)

// TestACacheFolderIsOfOneDaemon: a second daemon is refused until the first has exited.
func TestACacheFolderIsOfOneDaemon(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockCache(dir); err == nil || !strings.Contains(err.Error(), "another plumbline daemon") || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "--cache-dir") {
		t.Errorf("the second: %v", err)
	}
	if _, err := lockCache(t.TempDir()); err != nil {
		t.Errorf("another folder: %v", err)
	}
	unlock()
	if _, err := lockCache(dir); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}
