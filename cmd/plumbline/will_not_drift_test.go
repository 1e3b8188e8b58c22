package main

import (
	"testing"
	"time"
)

// TestEndOf: a period ends with a date, at a time, or after a duration.
func TestEndOf(t *testing.T) {
	now := time.Date(2026, 12, 18, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":                          "2026-12-25T12:00:00Z",
		"2026-12-27":                "2026-12-28T00:00:00Z",
		"2026-12-27T08:00:00+01:00": "2026-12-27T07:00:00Z",
		"72h":                       "2026-12-21T12:00:00Z",
		"2026-12-17":                "",
		"-1h":                       "",
		"christmas":                 "",
	} {
		got, err := endOf(text, now)
		if (err != nil) != (want == "") || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}
