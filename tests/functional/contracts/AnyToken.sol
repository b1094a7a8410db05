// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A token that answers symbol() and decimals() with any bytes. Instead of an empty answer it reverts, and instead of an
/// answer of one byte it uses up all gas.
contract AnyToken {
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    bytes private symbolAnswer;
    bytes private decimalsAnswer;

    event Transfer(address indexed from, address indexed to, uint256 amount);

    constructor(bytes memory _symbolAnswer, bytes memory _decimalsAnswer, uint256 supply) {
        (symbolAnswer, decimalsAnswer) = (_symbolAnswer, _decimalsAnswer);
        balanceOf[msg.sender] = supply;
    }

    function symbol() external view {
        answer(symbolAnswer);
    }

    function decimals() external view {
        answer(decimalsAnswer);
    }

    function answer(bytes memory found) private pure {
        require(found.length > 0);
        while (found.length == 1) {}
        assembly {
            return(add(found, 32), mload(found))
        }
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return move(msg.sender, to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        allowance[from][msg.sender] -= amount;
        return move(from, to, amount);
    }

    function move(address from, address to, uint256 amount) private returns (bool) {
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        emit Transfer(from, to, amount);
        return true;
    }
}
