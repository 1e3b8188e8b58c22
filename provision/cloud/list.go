package cloud

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	// pageSize is how many instances a page is asked for with, the most that EC2
	// gives, and smallestPage what it shrinks to where a page does not come in time.
	pageSize, smallestPage = 1000, 50
	// oldest is how old the first page of an answer may be: a state that was read
	// earlier says too little.
	oldest = 10 * time.Minute
)

// listing is an answer of several pages, as far as it was read.
type listing struct {
	found map[string]Instance
	// token of the next page; nil before the first.
	token *string
	began time.Time
}

// listings are the answers that there was not time enough for, by their filters.
type listings struct {
	mu       sync.Mutex
	open     map[string]*listing
	pageSize int32
}

// take returns the open listing of a key, so that nobody else goes on with it, or
// a new one.
func (l *listings) take(key string, now time.Time) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.open, func(_ string, open *listing) bool { return now.Before(open.began) || now.Sub(open.began) > oldest })
	if open, ok := l.open[key]; ok {
		delete(l.open, key)
		return open
	}
	return &listing{found: map[string]Instance{}, began: now}
}

// keep has the next question go on with a listing.
func (l *listings) keep(key string, open *listing) {
	if open.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]*listing{}
	}
	l.open[key] = open
}

func (l *listings) size() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pageSize == 0 {
		l.pageSize = pageSize
	}
	return l.pageSize
}

// shrink has pages be smaller from now on.
func (l *listings) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pageSize = max(smallestPage, l.pageSize/4)
}

// list reads all pages of an answer, however many questions that takes: what was
// read when ctx ends, or AWS fails, is kept, and the next call goes on with it.
// Nothing is found before the last page was read.
func (c *Client) list(ctx context.Context, into map[string]Instance, filters ...ec2types.Filter) error {
	key := keyOf(filters)
	l := c.listings.take(key, c.now())
	resumed := l.token != nil
	for pages := 0; ; pages++ {
		err := c.readPage(ctx, l, filters)
		if err != nil && resumed && pages == 0 && refusesToken(err) {
			l = &listing{found: map[string]Instance{}, began: c.now()}
			err = c.readPage(ctx, l, filters)
		}
		if err != nil {
			c.listings.keep(key, l)
			return c.unfinished(ctx, l, pages, err)
		}
		if aws.ToString(l.token) == "" {
			maps.Copy(into, l.found)
			return nil
		}
	}
}

// unfinished says why an answer was not read to its end.
func (c *Client) unfinished(ctx context.Context, l *listing, pages int, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	if pages == 0 {
		c.listings.shrink() // one page has taken all the time that there was
	}
	if l.token == nil {
		return err
	}
	return &PartialError{Action: "ec2:DescribeInstances", Err: err}
}

func (c *Client) readPage(ctx context.Context, l *listing, filters []ec2types.Filter) error {
	page, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		Filters: filters, NextToken: l.token, MaxResults: aws.Int32(c.listings.size()),
	})
	if err != nil {
		return c.named("ec2:DescribeInstances", err)
	}
	add(l.found, page.Reservations)
	l.token = page.NextToken
	return nil
}

// refusesToken says whether EC2 does not take a token: it has run out, or is not
// of this question.
func refusesToken(err error) bool {
	var answer *AnswerError
	return errors.As(err, &answer) && strings.Contains(answer.Code+answer.Detail, "oken")
}

// keyOf is equal for two questions with the same filters.
func keyOf(filters []ec2types.Filter) string {
	var key strings.Builder
	for _, f := range filters {
		key.WriteString(aws.ToString(f.Name) + "=" + strings.Join(f.Values, ",") + "\n")
	}
	return key.String()
}

func add(found map[string]Instance, reservations []ec2types.Reservation) {
	for _, reservation := range reservations {
		for i := range reservation.Instances {
			instance := instanceOf(&reservation.Instances[i])
			found[instance.ID] = instance
		}
	}
}
