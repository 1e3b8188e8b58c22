package nodes_test

import (
	"errors"
	"slices"
	"sync"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// cloud replaces the simulator: it contains what is attached, and can send events of instances.
type cloud struct {
	mu       sync.Mutex
	tell     func(awssim.Event)
	volumes  []string
	attached map[string]string // volume to instance
}

var (
	errAttached = errors.New("VolumeInUse: it is attached")
	errDetached = errors.New("IncorrectState: it is not attached there")
)

func (c *cloud) Subscribe(f func(awssim.Event)) { c.tell = f }

func (c *cloud) CreateVolume(string, int, map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumes = append(c.volumes, "vol-1")
	return "vol-1"
}

func (c *cloud) DeleteVolume(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[id] != "" {
		return errAttached
	}
	c.volumes = slices.DeleteFunc(c.volumes, func(v string) bool { return v == id })
	return nil
}

func (c *cloud) AttachVolume(instance, volume, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[volume] != "" {
		return errAttached
	}
	c.attached[volume] = instance
	return nil
}

func (c *cloud) DetachVolume(instance, volume string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[volume] != instance {
		return errDetached
	}
	delete(c.attached, volume)
	return nil
}

func (c *cloud) state() (volumes int, attached map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	attached = map[string]string{}
	for volume, instance := range c.attached {
		attached[volume] = instance
	}
	return len(c.volumes), attached
}
