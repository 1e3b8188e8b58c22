package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// timeout is that of one attempt, and maxAnswer how much of an answer is read.
const (
	timeout   = 10 * time.Second
	maxAnswer = 4 << 10
)

// laterError is a failure that may end by itself. After is how long the receiver wants none; 0 where
// it did not say.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string { return e.err.Error() }

func (e *laterError) Unwrap() error { return e.err }

// post makes one attempt. A *laterError is worth another.
func post(ctx context.Context, kind adapter, n Notice, with credentials) error {
	data, err := json.Marshal(kind.body(n))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport, trusted := trust.Transport(with.CA)
	if !trusted {
		return errors.New("ca.crt of its Secret has no certificate in PEM")
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, with.Address, bytes.NewReader(data))
	if err != nil {
		return errors.New("the address in its Secret is no URL")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "plumbline")
	if name, value := kind.sign(with, data); name != "" {
		request.Header.Set(name, value)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := (&http.Client{Transport: transport, CheckRedirect: stay}).Do(request)
	if err != nil {
		var at *url.Error // it repeats the address
		if errors.As(err, &at) {
			err = at.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", timeout)
		}
		return &laterError{err: err}
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // a part says enough
	return judge(response, said)
}

// judge turns an answer into an error, or nil.
func judge(response *http.Response, said []byte) error {
	code := response.StatusCode
	err := fmt.Errorf("it answers %s", response.Status)
	if text := bytes.TrimSpace(said); len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch {
	case code >= http.StatusOK && code < http.StatusMultipleChoices:
		return nil
	case code == http.StatusTooManyRequests:
		return &laterError{after: report.RetryAfter(response.Header), err: err}
	case code >= http.StatusInternalServerError, code == http.StatusRequestTimeout:
		return &laterError{after: report.RetryAfter(response.Header), err: err}
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return errors.New("it redirects to another address, which is not followed: put that address into its Secret")
	}
	return err
}
