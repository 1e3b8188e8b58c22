package resolve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

// TestAnAnswerHoldsForAWhile: a question is asked once, whoever asks it in which order of its
// filters, and again when the answer is old; an error and an empty answer hold for less.
func TestAnAnswerHoldsForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		terms  []awsv1.AMISelectorTerm
		refuse error
		holds  time.Duration
	}{
		"good":     {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}}, holds: goodFor},
		"empty":    {terms: []awsv1.AMISelectorTerm{{Tags: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}}, holds: badFor},
		"an error": {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}}, refuse: errors.New("denied"), holds: badFor},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFake()
			aws.refuse = map[string]error{"images": c.refuse}
			r := aws.resolver()
			ask := func() int {
				for range 5 {
					_, _ = r.AMIs(t.Context(), class(c.terms...), "1.36")
				}
				return aws.asked
			}
			if n := ask(); n != 1 {
				t.Errorf("asked %d times, want 1", n)
			}
			aws.now = aws.now.Add(c.holds - time.Second)
			if n := ask(); n != 1 {
				t.Errorf("asked %d times before it is old, want 1", n)
			}
			aws.now = aws.now.Add(time.Second)
			if n := ask(); n != 2 {
				t.Errorf("asked %d times, want 2", n)
			}
		})
	}
}

// TestAPassThatEndsIsNoAnswer: a question whose caller goes is asked again.
func TestAPassThatEndsIsNoAnswer(t *testing.T) {
	aws := newFake()
	aws.refuse = map[string]error{"images": fmt.Errorf("ask: %w", context.Canceled)}
	r := aws.resolver()
	for range 2 {
		_, _ = r.AMIs(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-amd"}), "1.36")
	}
	if aws.asked != 2 {
		t.Errorf("asked %d times, want 2", aws.asked)
	}
}

// TestTheBudget: however much is asked, AWS gets so many questions at once and then one in two
// seconds; over that the answer comes at once, is the same until the budget opens, and says when.
func TestTheBudget(t *testing.T) {
	aws := newFake()
	r := aws.resolver()
	asked := 0
	ask := func() error {
		asked++
		_, err := r.AMIs(t.Context(), class(awsv1.AMISelectorTerm{ID: fmt.Sprintf("ami-%d", asked)}), "1.36")
		return err
	}
	var busy *BusyError
	for range 100 {
		if err := ask(); errors.As(err, &busy) {
			break
		}
	}
	if aws.asked != atOnce || busy == nil {
		t.Fatalf("%d questions at once, want %d; %v", aws.asked, atOnce, busy)
	}
	first := busy.Error()
	aws.now = aws.now.Add(30 * time.Second)
	if err := ask(); err == nil || err.Error() != first || aws.asked != atOnce {
		t.Errorf("after 30 s: %v, want %s", err, first)
	}
	aws.now = busy.Again
	if err := ask(); errors.As(err, &busy) || aws.asked != atOnce+1 {
		t.Errorf("when it opens: %v", err)
	}
	began := aws.now
	for aws.now.Sub(began) < time.Hour {
		_ = ask()
		aws.now = aws.now.Add(time.Second)
	}
	if most := int(time.Hour.Seconds()*perSecond) + atOnce; aws.asked-atOnce > most {
		t.Errorf("%d questions in an hour, want %d at most", aws.asked-atOnce, most)
	}
}
