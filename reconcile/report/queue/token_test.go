package queue

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestATokenIsReadWhenAStatusIsDue and kept nowhere: the queue has the name of its Secret, and
// what is sent is what the Secret holds then.
func TestATokenIsReadWhenAStatusIsDue(t *testing.T) {
	w := newWorld(t)
	holds := func(token string) {
		t.Helper()
		secret := &corev1.Secret{}
		must(t, w.client.Get(t.Context(), types.NamespacedName{Namespace: w.sync.Namespace, Name: "token"}, secret))
		secret.Data["token"] = []byte(token)
		must(t, w.client.Update(t.Context(), secret))
	}
	must(t, w.say(applied("a")))
	if len(w.tokens) > 0 {
		t.Errorf("a status that waits has its token read: %q", w.tokens)
	}
	holds("rotated")
	w.deliver()
	must(t, w.say(applied("b")))
	holds("again")
	w.now = w.now.Add(longestWait)
	w.deliver()
	if want := []string{"rotated", "again"}; !slices.Equal(want, w.tokens) || len(w.posted) != 2 {
		t.Errorf("sent with %q, want %q; posted %v", w.tokens, want, w.said(0))
	}
	must(t, w.say(applied("c"))) // what waits names it
	raw, err := json.Marshal(w.object(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, token := range []string{"s3cret", "rotated", "again"} {
		if strings.Contains(text, token) {
			t.Errorf("the queue has the token: %s", text)
		}
	}
	if !strings.Contains(text, `\"token\"`) {
		t.Errorf("the queue does not name the Secret: %s", text)
	}
}
