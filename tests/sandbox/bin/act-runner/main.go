// Command act-runner runs the jobs of one repository's Gitea Actions on this machine, without containers, with the
// engine of Gitea's own act_runner, which is not a module in the proxy. It registers, polls for jobs until it is
// stopped, and reports each at its end, with its log.
//
// Use it only with a Git host whose workflows are your own: a job can do anything with this user's files.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	runnerv1 "code.gitea.io/actions-proto-go/runner/v1"
	"code.gitea.io/actions-proto-go/runner/v1/runnerv1connect"
	"connectrpc.com/connect"
)

// asks is the interval of polling for a job, and unanswered the number of consecutive failures after which Gitea counts
// as gone.
const (
	asks       = 500 * time.Millisecond
	unanswered = 60
)

// host is a Gitea, and this runner's registration.
type host struct {
	runnerv1connect.RunnerServiceClient
	url string
	// dir contains checkouts and what jobs write.
	dir string
}

func main() {
	url := flag.String("url", "", "where Gitea is")
	token := flag.String("token", "", "the registration token of a repository")
	dir := flag.String("dir", "", "a folder for checkouts and what jobs write")
	label := flag.String("label", "ubuntu-latest", "which runs-on it is for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *token, *dir, *label); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run registers and runs jobs until the context is done.
func run(ctx context.Context, url, token, dir, label string) error {
	h := &host{url: url, dir: dir, RunnerServiceClient: runnerv1connect.NewRunnerServiceClient(http.DefaultClient, url+"/api/actions")}
	registered, err := h.Register(ctx, connect.NewRequest(&runnerv1.RegisterRequest{Name: "act-runner", Token: token, Version: "sandbox", Labels: []string{label}}))
	if err != nil {
		return fmt.Errorf("register at %s: %w", url, err)
	}
	as := identified(registered.Msg.Runner.Uuid, registered.Msg.Runner.Token)
	h.RunnerServiceClient = runnerv1connect.NewRunnerServiceClient(http.DefaultClient, url+"/api/actions", connect.WithInterceptors(as))
	if _, err := h.Declare(ctx, connect.NewRequest(&runnerv1.DeclareRequest{Version: "sandbox", Labels: []string{label}})); err != nil {
		return fmt.Errorf("declare what it runs: %w", err)
	}
	log.Printf("registered at %s for %s", url, label)
	tick := time.NewTicker(asks)
	defer tick.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fetched, err := h.FetchTask(ctx, connect.NewRequest(&runnerv1.FetchTaskRequest{}))
		if err != nil {
			if failures++; failures == unanswered {
				return fmt.Errorf("ask for a job: %w", err)
			}
			continue
		}
		failures = 0
		if task := fetched.Msg.Task; task != nil {
			log.Printf("job %d begins", task.Id)
			if err := h.work(ctx, task); err != nil {
				return fmt.Errorf("job %d: %w", task.Id, err)
			}
			log.Printf("job %d is over", task.Id)
		}
	}
}

// identified adds the runner's identity to each request.
func identified(uuid, token string) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("x-runner-uuid", uuid)
			request.Header().Set("x-runner-token", token)
			return next(ctx, request)
		}
	})
}
