package capture_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	c := &capture.Capture{
		Version: capture.Version, TakenAt: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Unread: []string{"a"},
		Definitions: []map[string]any{{"kind": "NodePool"}}, Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
	}
	file := &bytes.Buffer{}
	if err := c.Encode(file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	got, err := capture.Decode(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Error(diff)
	}
	if _, err := capture.Decode(bytes.NewReader(whole[:len(whole)/2])); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("half a file: %v", err)
	}
}

// TestBadFilesAreNamed has each be an error that says what it is.
func TestBadFilesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"another version":              {`{"version":2,"definitions":[]}`, "version 2"},
		"another version's other form": {`{"version":2,"pods":"none"}`, "version 2"},
		"something else":               {`{"apiVersion":"v1"}`, "has no version"},
		"no JSON":                      {`apiVersion: v1`, "no file of plumbline snapshot"},
		"pods that are none":           {`{"version":1,"pods":"none"}`, "no file of plumbline snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := capture.Decode(packed(t, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	const most = 1 << 20
	bomb := packed(t, `{"version":1,"unread":["`+strings.Repeat("a", 2*most)+`"]}`)
	if _, err := capture.DecodeUpTo(bomb, most); err == nil || !strings.Contains(err.Error(), "unpacks to more than 1 MiB") {
		t.Errorf("a file that unpacks to more: %v", err)
	}
	if _, err := capture.Decode(strings.NewReader("{}")); err == nil {
		t.Error("a file that is not packed is read")
	}
}

// packed is a text in gzip.
func packed(t *testing.T, text string) *bytes.Buffer {
	t.Helper()
	file := &bytes.Buffer{}
	out := gzip.NewWriter(file)
	if _, err := fmt.Fprint(out, text); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}
