package report

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		err  error
		want outcome
	}{
		"no answer":             {&UnavailableError{Err: errors.New("connection refused")}, retryHost},
		"a gateway's 502":       {&UnavailableError{Code: 502}, retryHost},
		"503":                   {&UnavailableError{Code: 503}, retryHost},
		"408":                   {&UnavailableError{Code: 408}, retryHost},
		"500":                   {&UnavailableError{Code: 500}, retryEntry},
		"429, 403 with a limit": {&RateLimitedError{}, retryHost},
		"401, 403":              {&UnauthorizedError{}, awaitChange},
		"404":                   {&NotFoundError{}, retryAWhile},
		"422":                   {&RejectedError{Code: 422}, giveUp},
		"400":                   {&RejectedError{Code: 400}, giveUp},
		"409":                   {&RejectedError{Code: 409}, retryEntry},
		"moved":                 {&MovedError{}, awaitChange},
		"no such URL":           {&RepositoryError{}, awaitChange},
		"no token":              {&SecretError{Key: "token"}, awaitChange},
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
