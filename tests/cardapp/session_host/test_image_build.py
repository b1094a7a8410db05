"""The settings of this machine that a build of the image gets, so that it reaches the package servers."""

from __future__ import annotations

from pathlib import Path

from cardapp.session_host.image_build import apt_settings, pip_settings, write_package_settings

DUMP = """\
APT::Architecture "amd64";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::http::Proxy::mirror.example "DIRECT";
Acquire::https::Verify-Peer "true";
Acquire::https::CaInfo "/home/me/ca.pem";
Acquire::http::Proxy-Auto-Detect "/usr/local/bin/detect";
Acquire::Retries "3";
DPkg::Post-Invoke:: "/usr/local/bin/mine";
"""


def test_apt_gets_the_settings_for_servers_and_no_paths_of_this_machine() -> None:
    assert apt_settings(DUMP, sources=False, bundle=False).splitlines() == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::http::Proxy::mirror.example "DIRECT";',
        'Acquire::https::Verify-Peer "true";',
        'Acquire::Retries "3";',
    ]
    assert apt_settings("", sources=True, bundle=True).splitlines() == [
        'Dir::Etc::SourceList "/run/secrets/sources.list";',
        'Dir::Etc::SourceParts "/dev/null";',
        'Acquire::https::CaInfo "/run/secrets/certificates.pem";',
    ]


def test_pip_gets_its_indexes_by_precedence() -> None:
    listed = r"""
:env:.index-url='https://c.example/simple'
:env:.find-links='/opt/wheels https://wheels.example'
global.cert='/home/me/ca.pem'
global.extra-index-url='\nhttps://x.example\nfile:///opt/simple\nhttps://y.example'
global.index-url='https://a.example/simple'
global.require-virtualenv='true'
install.index-url='https://b.example/simple'
install.trusted-host='b.example'
download.proxy='http://other.example'
""".lstrip()
    assert pip_settings(listed, bundle=True).splitlines() == [
        "[global]",
        "extra-index-url = https://x.example https://y.example",
        "index-url = https://c.example/simple",
        "trusted-host = b.example",
        "find-links = https://wheels.example",
        "cert = /run/secrets/certificates.pem",
    ]
    assert pip_settings("global.find-links='/opt/wheels'\n", bundle=False) == "[global]\n"


def test_a_build_gets_this_machines_package_settings(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("a certificate")
    without = write_package_settings(tmp_path / "without", None, {}, bundles=())
    assert [path.name for path in without] == ["apt.conf", "pip.conf"]
    files = write_package_settings(tmp_path / "with", "http://mirror.example/debian", {"SSL_CERT_FILE": str(bundle)})
    assert [path.name for path in files] == ["apt.conf", "pip.conf", "sources.list", "certificates.pem"]
    assert files[2].read_text() == "deb http://mirror.example/debian trixie main\n"
    assert files[3].read_text() == "a certificate"
    assert (tmp_path / "with").stat().st_mode & 0o777 == 0o700
