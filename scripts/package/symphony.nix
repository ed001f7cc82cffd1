# Install it with nix-env -if symphony.nix, or in a configuration with callPackage ./symphony.nix { }.
{ pkgs ? import <nixpkgs> { }, stdenvNoCC ? pkgs.stdenvNoCC, fetchurl ? pkgs.fetchurl }:
stdenvNoCC.mkDerivation rec {
  pname = "symphony";
  version = "@NUMBER@";
  src = fetchurl (passthru.archives.${stdenvNoCC.hostPlatform.system} or (throw "symphony: no archive for this system"));
  dontBuild = true;
  installPhase = ''
    install -Dm755 symphony $out/bin/symphony
    install -Dm644 man/man1/symphony.1 $out/share/man/man1/symphony.1
    install -Dm644 man/man5/symphony-workflow.5 $out/share/man/man5/symphony-workflow.5
    install -Dm644 completions/symphony.bash $out/share/bash-completion/completions/symphony
    install -Dm644 completions/_symphony $out/share/zsh/site-functions/_symphony
    install -Dm644 completions/symphony.fish $out/share/fish/vendor_completions.d/symphony.fish
  '';
  meta = {
    description = "Lets coding agents work through your backlog";
    homepage = "https://@MODULE@";
    mainProgram = "symphony";
  };
  passthru.archives = {
