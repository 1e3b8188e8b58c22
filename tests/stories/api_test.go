package stories_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/apiproxy"
)

// Commands for the connection between the daemon and the API server.

func (s *story) apiCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: api up|down|hang|429 [DURATION], api slow DELAY, api expire, api writes = N")
	if len(args) == 0 {
		return usage
	}
	if s.proxy == nil {
		if s.daemon.Running() {
			return errors.New("the daemon goes to the API server itself: say `api up` before it is started")
		}
		var err error
		if s.proxy, err = apiproxy.Start(s.c.Sandbox); err != nil {
			return err
		}
		s.daemon.Via(s.proxy.Endpoint)
	}
	if args[0] == "writes" && len(args) == 3 && args[1] == "=" {
		return s.proxied(args[2])
	}
	var d time.Duration
	if len(args) > 1 {
		var err error
		if d, err = time.ParseDuration(args[1]); err != nil {
			return errors.Join(usage, err)
		}
	}
	switch fault := apiproxy.Fault(args[0]); fault {
	case apiproxy.None, apiproxy.Down, apiproxy.Hang, apiproxy.Busy:
		s.proxy.Set(fault, 0, d)
	case apiproxy.Slow:
		s.proxy.Set(fault, d, 0)
	case "expire":
		s.proxy.Expire()
	default:
		return usage
	}
	return nil
}

// proxied checks how many writes of the daemon were forwarded since the mark.
func (s *story) proxied(want string) error {
	writes := s.proxy.Writes()[s.mark.proxied:]
	if got := fmt.Sprint(len(writes)); got != want {
		return fmt.Errorf("writes of the daemon to the API server: got %s, want %s:\n\t%s", got, want, strings.Join(writes, "\n\t"))
	}
	return nil
}
