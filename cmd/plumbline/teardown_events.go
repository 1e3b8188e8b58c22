package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/redact"
)

// teardownEvent is a line of JSON; what Event is says which of the others it has.
type teardownEvent struct {
	Time string `json:"time"`
	// Event is plan, message, departure or report.
	Event     string           `json:"event"`
	Message   string           `json:"message,omitempty"`
	Plan      *teardownPlan    `json:"plan,omitempty"`
	Departure *departure       `json:"departure,omitempty"`
	Report    *leftover.Report `json:"report,omitempty"`
}

// eventShow prints one event a line.
type eventShow struct {
	out  io.Writer
	now  func() time.Time
	said map[string]departure
	last string
	// failed is why a line could not be written.
	failed error
}

func (s *eventShow) print(e teardownEvent) {
	e.Time = s.now().UTC().Format(time.RFC3339)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintln(s.out, redact.VisibleJSON(string(line)))
	}
	s.failed = errors.Join(s.failed, err)
}

func (s *eventShow) plan(l *teardownPlan) error {
	s.print(teardownEvent{Event: "plan", Plan: l})
	return s.failed
}

func (s *eventShow) say(words string) {
	if words != "" && words != s.last {
		s.last = words
		s.print(teardownEvent{Event: "message", Message: words})
	}
}

func (s *eventShow) progress(all departures, message string) {
	for _, d := range news(s.said, all) {
		s.print(teardownEvent{Event: "departure", Departure: &d})
	}
	s.say(message)
}

func (s *eventShow) report(report leftover.Report) error {
	s.print(teardownEvent{Event: "report", Report: &report})
	return s.failed
}

func (s *eventShow) end() {}
