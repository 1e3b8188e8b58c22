package alerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// scrape is what a daemon served at a time.
type scrape struct {
	at   time.Time
	text []byte
}

// scrapes reads a folder of what a daemon served: files named by the time in milliseconds.
func scrapes(folder string) ([]scrape, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []scrape
	for _, file := range files {
		ms, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".txt"), 10, 64)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, scrape{time.UnixMilli(ms), text})
	}
	slices.SortFunc(all, func(a, b scrape) int { return a.at.Compare(b.at) })
	return all, nil
}

// target defines how Prometheus labels what it scrapes.
type target struct {
	labels map[string]string
	// honorLabels keeps the daemon's labels if both have one of the same name.
	honorLabels bool
}

// store appends scrapes as Prometheus would, with `up`: a series that is no longer served ends.
func store(ctx context.Context, to storage.Appendable, all []scrape, t target) error {
	appender := to.Appender(ctx)
	before := map[string]labels.Labels{}
	for _, s := range all {
		up := map[string]string{model.MetricNameLabel: "up"}
		if _, err := appender.Append(0, t.of(up), s.at.UnixMilli(), 1); err != nil {
			return err
		}
		served, err := t.append(appender, s)
		for name, series := range before {
			if _, still := served[name]; !still && err == nil {
				_, err = appender.Append(0, series, s.at.UnixMilli(), math.Float64frombits(value.StaleNaN))
			}
		}
		if err != nil {
			return errors.Join(fmt.Errorf("what was served at %s: %w", s.at, err), appender.Rollback())
		}
		before = served
	}
	return appender.Commit()
}

// append appends the series of one scrape, and returns them by name, with their labels.
func (t target) append(appender storage.Appender, s scrape) (map[string]labels.Labels, error) {
	all := map[string]labels.Labels{}
	decoder := expfmt.SampleDecoder{
		Dec: expfmt.NewDecoder(bytes.NewReader(s.text), expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(s.at.UnixNano())},
	}
	for {
		var family model.Vector
		if err := decoder.Decode(&family); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for _, sample := range family {
			served := map[string]string{}
			for name, text := range sample.Metric {
				served[string(name)] = string(text)
			}
			series := t.of(served)
			if _, err := appender.Append(0, series, s.at.UnixMilli(), float64(sample.Value)); err != nil {
				return nil, err
			}
			all[series.String()] = series
		}
	}
}

// of returns the labels that a series has in Prometheus.
func (t target) of(series map[string]string) labels.Labels {
	merged := map[string]string{}
	for name, value := range t.labels {
		merged[name] = value
	}
	for name, value := range series {
		if _, both := t.labels[name]; both && !t.honorLabels {
			name = "exported_" + name
		}
		merged[name] = value
	}
	return labels.FromMap(merged)
}
