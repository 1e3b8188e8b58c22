package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		err  error
		want outcome
	}{
		"no answer":             {&report.UnavailableError{Err: errors.New("connection refused")}, retryHost},
		"a gateway's 502":       {&report.UnavailableError{Code: 502}, retryHost},
		"503":                   {&report.UnavailableError{Code: 503}, retryHost},
		"408":                   {&report.UnavailableError{Code: 408}, retryHost},
		"500":                   {&report.UnavailableError{Code: 500}, retryEntry},
		"429, 403 with a limit": {&report.RateLimitedError{}, retryHost},
		"401, 403":              {&report.UnauthorizedError{}, awaitChange},
		"404":                   {&report.NotFoundError{}, retryAWhile},
		"422":                   {&report.RejectedError{Code: 422}, giveUp},
		"400":                   {&report.RejectedError{Code: 400}, giveUp},
		"409":                   {&report.RejectedError{Code: 409}, retryEntry},
		"moved":                 {&report.MovedError{}, awaitChange},
		"no such URL":           {&report.RepositoryError{}, awaitChange},
		"no token":              {&report.SecretError{Key: "token"}, awaitChange},
		"no secret":             {fmt.Errorf("read: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "token")), awaitChange},
		"no API server":         {context.DeadlineExceeded, retryEntry},
		"anything else":         {errors.New("odd"), retryEntry},
	}
	for name, c := range cases {
		if got := outcomeOf(fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("%s: outcome %d, want %d", name, got, c.want)
		}
	}
}
