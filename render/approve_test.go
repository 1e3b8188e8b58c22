package render_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/render"
)

// TestShownDigest: what people read and type is one short word, which differs if any of the first 130 bits does.
func TestShownDigest(t *testing.T) {
	raw := sha256.Sum256([]byte("a plan"))
	of := func(sum [32]byte) string { return render.ShownDigest("sha256:" + hex.EncodeToString(sum[:])) }
	shown := of(raw)
	if len(shown) != 26 || strings.Trim(shown, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("shown as %q", shown)
	}
	for bit := range 130 {
		other := raw
		other[bit/8] ^= 0x80 >> (bit % 8)
		if of(other) == shown {
			t.Errorf("bit %d is not in %s", bit, shown)
		}
	}
}

// TestNamesDigest: a digest is named in full, in one of its two forms.
func TestNamesDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("1f0c9a3b", 8)
	shown := render.ShownDigest(digest)
	for typed, want := range map[string]bool{
		digest: true, shown: true,
		"": false, "sha256:": false, digest[:19]: false, digest[:len(digest)-1]: false, digest + "0": false,
		shown[:25]: false, shown + "a": false, strings.ToUpper(shown): false, digest[len("sha256:"):]: false,
	} {
		if got := render.NamesDigest(typed, digest); got != want {
			t.Errorf("%q names it: %t", typed, got)
		}
	}
	if render.NamesDigest("", "") {
		t.Error("nothing names nothing")
	}
}
