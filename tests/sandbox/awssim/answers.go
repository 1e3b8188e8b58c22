package awssim

import (
	"errors"
	"time"
)

// Answers specifies how EC2 responds to list calls. Its documentation guarantees neither order, nor full pages, nor
// consistency (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html); the default is consistent,
// but has neither of the others.
type Answers struct {
	// Sorted lists by ID. Otherwise each listing has its own order.
	Sorted bool `json:"sorted,omitempty"`
	// ShortPages and EmptyPages are the shares, from 0 to 1, of the pages that have fewer items than possible, or none,
	// and still a token.
	ShortPages float64 `json:"shortPages"`
	EmptyPages float64 `json:"emptyPages"`
	// TokenLife is how long the token of a next page is valid.
	TokenLife Duration `json:"tokenLife"`
	// TagsStay is how long a terminated instance keeps its tags.
	TagsStay Duration `json:"tagsStay"`

	// Lag shows each instance as it was at some time within the last Lag, a different one in each response.
	Lag Duration `json:"lag,omitempty"`
	// Flap is the share of the responses that omit an instance although it exists. For one caller, two consecutive ones
	// never omit it.
	Flap float64 `json:"flap,omitempty"`
	// Settle is how long after its last change an instance lags and flaps; if zero, always.
	Settle Duration `json:"settle,omitempty"`
	// AccessKey is the caller whose responses lag and flap; if empty, all callers.
	AccessKey string `json:"accessKey,omitempty"`
}

// DefaultAnswers returns answers in any order, with pages that are sometimes short or empty, and consistent.
func DefaultAnswers() Answers {
	return Answers{ShortPages: 0.25, EmptyPages: 0.1, TokenLife: Duration(time.Hour), TagsStay: Duration(5 * time.Second)}
}

// mostFlap leaves each instance a chance to be listed.
const mostFlap = 0.9

func (a Answers) validate() error {
	share := func(f float64) bool { return f >= 0 && f <= mostFlap }
	switch {
	case !share(a.ShortPages), !share(a.EmptyPages), !share(a.Flap):
		return errors.New("shortPages, emptyPages and flap are shares from 0 to 0.9")
	case a.TokenLife <= 0:
		return errors.New("tokenLife is positive")
	case a.Lag < 0, a.Settle < 0, a.TagsStay < 0:
		return errors.New("lag, settle and tagsStay are not negative")
	}
	return nil
}

// Answers returns the current setting.
func (s *Simulator) Answers() Answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.answers
}

// SetAnswers sets how EC2 responds from now on.
func (s *Simulator) SetAnswers(answers Answers) error {
	if err := answers.validate(); err != nil {
		return err
	}
	s.locked(func(a *account) {
		a.answers = answers
		a.missed = map[string]bool{}
	})
	return nil
}
