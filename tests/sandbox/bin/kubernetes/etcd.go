package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdCommand runs a one-member etcd that does not wait for the disk: a
// sandbox's data need not outlive a power cut.
func etcdCommand() *cobra.Command {
	var dir, client, peer string
	cmd := &cobra.Command{
		Use:          "etcd",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(*cobra.Command, []string) error { return runEtcd(dir, client, peer) },
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "folder of the data")
	cmd.Flags().StringVar(&client, "client-url", "", "address for clients")
	cmd.Flags().StringVar(&peer, "peer-url", "", "address for peers")
	return cmd
}

func runEtcd(dir, client, peer string) error {
	clientURL, err := url.Parse(client)
	if err != nil {
		return fmt.Errorf("parse --client-url: %w", err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return fmt.Errorf("parse --peer-url: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	defer etcd.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		return nil
	case err := <-etcd.Err():
		return err
	}
}
