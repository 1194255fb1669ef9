package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// validity of the certificates. Longer than any run of the lab.
const validity = 7 * 24 * time.Hour

// newPKICommand writes what a control plane of one run needs: ca.crt; apiserver.crt, apiserver.key
// for the given names and addresses; kubelet-client.crt, kubelet-client.key, by which kubelets know
// it; sa.key, sa.pub for service account tokens.
func newPKICommand() *cobra.Command {
	var dir string
	var names []string
	var addresses []net.IP
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "write the certificates and keys of a control plane",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return writePKI(dir, names, addresses) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "existing folder to write into")
	cmd.Flags().StringSliceVar(&names, "dns", []string{"localhost"}, "names of the API server")
	cmd.Flags().IPSliceVar(&addresses, "ip", []net.IP{net.IPv4(127, 0, 0, 1)}, "addresses of the API server")
	_ = cmd.MarkFlagRequired("dir") // fails only for a flag that does not exist
	return cmd
}

func writePKI(dir string, names []string, addresses []net.IP) error {
	authority := template("slipway lab", 1)
	authority.IsCA = true
	authority.BasicConstraintsValid = true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	authorityKey, err := newKey()
	if err != nil {
		return err
	}
	if err := writeCertificate(dir, "ca.crt", authority, authority, authorityKey.Public(), authorityKey); err != nil {
		return err
	}

	server := template("kube-apiserver", 2)
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = names
	server.IPAddresses = addresses
	serverKey, err := newKey()
	if err != nil {
		return err
	}
	if err := writeCertificate(dir, "apiserver.crt", server, authority, serverKey.Public(), authorityKey); err != nil {
		return err
	}
	if err := writePrivateKey(dir, "apiserver.key", serverKey); err != nil {
		return err
	}

	client := template("kube-apiserver-kubelet-client", 3)
	client.KeyUsage = x509.KeyUsageDigitalSignature
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	clientKey, err := newKey()
	if err != nil {
		return err
	}
	if err := writeCertificate(dir, "kubelet-client.crt", client, authority, clientKey.Public(), authorityKey); err != nil {
		return err
	}
	if err := writePrivateKey(dir, "kubelet-client.key", clientKey); err != nil {
		return err
	}

	accounts, err := newKey()
	if err != nil {
		return err
	}
	if err := writePrivateKey(dir, "sa.key", accounts); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return fmt.Errorf("cannot encode sa.pub: %w", err)
	}
	return writePEM(dir, "sa.pub", "PUBLIC KEY", public)
}

func template(commonName string, serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-time.Hour), // a host's clock may be behind
		NotAfter:     now.Add(validity),
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	return key, nil
}

func writeCertificate(dir, name string, certificate, issuer *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) error {
	bytes, err := x509.CreateCertificate(rand.Reader, certificate, issuer, public, signer)
	if err != nil {
		return fmt.Errorf("cannot sign %s: %w", name, err)
	}
	return writePEM(dir, name, "CERTIFICATE", bytes)
}

func writePrivateKey(dir, name string, key *ecdsa.PrivateKey) error {
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", name, err)
	}
	return writePEM(dir, name, "PRIVATE KEY", bytes)
}

func writePEM(dir, name, kind string, bytes []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}
