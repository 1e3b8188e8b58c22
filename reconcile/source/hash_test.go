package source_test

import (
	"crypto"
	"reflect"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/hash"
)

// TestObjectNamesAreCheckedForCollisions shows that Git's SHA-1 detects content made to collide.
func TestObjectNamesAreCheckedForCollisions(t *testing.T) {
	if of := reflect.TypeOf(hash.New(crypto.SHA1)).Elem().PkgPath(); !strings.HasSuffix(of, "/sha1cd") {
		t.Errorf("objects are named by %s, which detects no collision", of)
	}
}
